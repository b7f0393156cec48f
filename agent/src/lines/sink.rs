//! Takes windows as they end and has their lines written.
//!
//! Three threads share the work, so that the one before never waits: the worker only hands
//! in the window, the thread `lines` makes its lines and lets go of it, and the thread
//! `jsonl` writes. While nothing is exported a window costs one look at a flag, and there
//! are no threads.

use std::cell::LazyCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;

use super::file::{Limits, LinesFile};
use super::line::LineFormat;
use super::queue::{self, Job, Lines, Queue};
use super::window::Of;
use super::written;
use crate::config::{self, ConfigError};
use crate::process::{host, panics};
use crate::traffic::tally::Tally;
use crate::window::Window;
use crate::window::view::CurrentView;
use crate::window::windows::{OnTurn, WasTold};

/// Windows that may wait for their lines: they keep their memory meanwhile.
const MOST_WINDOWS: usize = 4096;
/// Pause between two looks at whether all is written.
const STEP: Duration = Duration::from_millis(5);
/// How long a stop waits for the last lines to be written.
const LAST: Duration = Duration::from_secs(3);

/// What the thread `lines` is told.
enum Message {
    Window(Arc<Window>, Lines),
    Job(Job),
    /// Nothing comes after this.
    End,
}

/// Where windows go; shared with who ends them.
#[derive(Default)]
struct Way {
    /// None while nothing is exported.
    messages: ArcSwapOption<Sender<Message>>,
    /// Windows that wait for their lines.
    waiting: Arc<AtomicUsize>,
}

/// See the head of this module.
pub struct LinesSink {
    way: Arc<Way>,
    shown: Arc<CurrentView>,
    /// The file that lines are written to.
    current: Option<(PathBuf, Limits)>,
    threads: Option<Threads>,
}

struct Threads {
    messages: Sender<Message>,
    making: JoinHandle<()>,
    writing: JoinHandle<()>,
}

/// What another configuration asks for, and can be had.
pub enum Prepared {
    Same,
    Off,
    Limits(Limits),
    File(LinesFile, Limits),
}

impl LinesSink {
    /// A sink that takes nothing yet; lines have what `shown` says.
    pub fn new(shown: Arc<CurrentView>) -> Self {
        Self {
            way: Arc::default(),
            shown,
            current: None,
            threads: None,
        }
    }

    /// Who is to be told of windows that have ended.
    pub fn on_turn(&self) -> OnTurn {
        let way = Arc::clone(&self.way);
        Arc::new(move |interface, window, tally| way.take(interface, window, tally))
    }

    /// Whether lines are written at the moment.
    pub fn is_on(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the file had lines of a window when this run began, by its interface and its
    /// beginning. The file is read when this is first asked.
    pub fn was_written(&self) -> WasTold {
        let path = self.current.as_ref().map(|(path, _)| path.clone());
        let windows = LazyCell::new(move || path.map(|path| written::windows(&path)));
        Box::new(move |interface, start| {
            let key = (interface.to_owned(), written::milliseconds(start));
            windows
                .as_ref()
                .is_some_and(|windows| windows.contains(&key))
        })
    }

    /// Opens what a configuration asks for.
    pub fn prepare(&mut self, config: &config::Export) -> anyhow::Result<Prepared> {
        let limits = Limits {
            bytes: config.jsonl_size.0,
            files: config.jsonl_files,
        };
        let prepared = match (config.jsonl_file(), &self.current) {
            (None, None) => Prepared::Same,
            (None, Some(_)) => Prepared::Off,
            (Some(path), Some((current, before))) if path == current => match *before == limits {
                true => Prepared::Same,
                false => Prepared::Limits(limits),
            },
            (Some(path), _) => Prepared::File(open(path, limits)?, limits),
        };
        if matches!(prepared, Prepared::File(..)) && self.threads.is_none() {
            self.threads = Some(self.start()?);
        }
        Ok(prepared)
    }

    /// Goes by that from the next window on that ends.
    pub fn adopt(&mut self, prepared: Prepared) {
        let Some(threads) = &self.threads else {
            return;
        };
        let job = match prepared {
            Prepared::Same => return,
            Prepared::Off => {
                self.current = None;
                self.way.messages.store(None);
                Job::File(None)
            }
            Prepared::Limits(limits) => {
                self.current = self.current.take().map(|(path, _)| (path, limits));
                Job::Limits(limits)
            }
            Prepared::File(file, limits) => {
                self.current = Some((file.path().into(), limits));
                Job::File(Some(file))
            }
        };
        // A thread that is gone loses lines, which are counted one by one.
        let _ = threads.messages.send(Message::Job(job));
        if self.current.is_some() {
            let messages = threads.messages.clone();
            self.way.messages.store(Some(Arc::new(messages)));
        }
    }

    fn start(&self) -> anyhow::Result<Threads> {
        let (messages, told) = mpsc::channel();
        let (jobs, to_do) = mpsc::channel();
        let bytes = Arc::new(AtomicUsize::new(0));
        let queue = Queue::new(jobs, Arc::clone(&bytes));
        let (shown, waiting) = (Arc::clone(&self.shown), Arc::clone(&self.way.waiting));
        let making = thread::Builder::new()
            .name("lines".into())
            .spawn(move || make_all(&told, &shown, &waiting, queue))?;
        let writing = thread::Builder::new()
            .name("jsonl".into())
            .spawn(move || queue::write_all(&to_do, &bytes))?;
        Ok(Threads {
            messages,
            making,
            writing,
        })
    }

    /// Waits until all lines are written, though not for ever.
    pub fn finish(mut self) {
        let Some(threads) = self.threads.take() else {
            return;
        };
        self.way.messages.store(None);
        let _ = threads.messages.send(Message::End);
        let start = Instant::now();
        while !threads.making.is_finished() || !threads.writing.is_finished() {
            if start.elapsed() >= LAST {
                tracing::warn!("not all lines of export.jsonl are written: the disk is too slow");
                return;
            }
            thread::sleep(STEP);
        }
    }
}

fn open(path: &Path, limits: Limits) -> Result<LinesFile, ConfigError> {
    LinesFile::open(path, limits).map_err(|error| {
        let place = format!("export.jsonl = {:?}", path.display().to_string());
        ConfigError::new(place, format_args!("cannot be written: {error}"))
    })
}

impl Way {
    /// Hands in a window that has ended.
    fn take(&self, interface: &str, window: &Arc<Window>, tally: &Arc<Tally>) {
        let messages = self.messages.load();
        let Some(messages) = &*messages else {
            return;
        };
        let of = Lines {
            interface: interface.into(),
            tally: Arc::clone(tally),
        };
        if self.waiting.fetch_add(1, Relaxed) >= MOST_WINDOWS {
            self.waiting.fetch_sub(1, Relaxed);
            // How many more lines it would have had is not known.
            return of.lose(1);
        }
        if messages
            .send(Message::Window(Arc::clone(window), of.clone()))
            .is_err()
        {
            self.waiting.fetch_sub(1, Relaxed);
            of.lose(1);
        }
    }
}

/// Makes lines until there is nothing more to be made.
fn make_all(told: &Receiver<Message>, shown: &CurrentView, waiting: &AtomicUsize, queue: Queue) {
    let host = host::name();
    let mut queue = queue;
    for message in told {
        match message {
            Message::Window(window, of) => {
                let text = panics::catch(|| text(&host, &of.interface, &window, shown));
                drop(window);
                waiting.fetch_sub(1, Relaxed);
                match text {
                    Some(text) => queue.append(text, of),
                    None => of.lose(1),
                }
            }
            Message::Job(job) => queue.send(job),
            Message::End => return,
        }
    }
}

/// The lines of a window that has ended.
fn text(host: &str, interface: &str, window: &Window, shown: &CurrentView) -> String {
    let view = shown.view();
    let lists = window.lists(view.top, view.anonymiser());
    let state = window.state();
    let of = Of {
        host: Some(host),
        interface,
        complete: true,
        time: &state.time,
    };
    let lines = of.lines(&state, &[&lists.by_packets, &lists.by_bytes]);
    LineFormat::Jsonl.text(&lines)
}
