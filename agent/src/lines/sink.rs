//! Writes the lines of windows that have ended.
//!
//! The work is divided between three threads, so that the worker never waits: the worker sends
//! the window, the thread `lines` converts it to lines and drops it, and the thread `jsonl`
//! writes them. If nothing is exported, these two threads do not exist, and the worker only
//! checks a flag.

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
use super::queue::{self, Job, Origin, Queue};
use super::window::Of;
use super::written;
use crate::config::{self, ConfigError};
use crate::process::{host, panics};
use crate::traffic::tally::Tally;
use crate::window::Window;
use crate::window::view::CurrentView;
use crate::window::windows::{OnTurn, WasReported};

/// Most windows that wait to be converted to lines. Each keeps its memory meanwhile.
const MOST_WINDOWS: usize = 4096;
/// Pause between two checks whether everything is written.
const STEP: Duration = Duration::from_millis(5);
/// How long a stop waits for the last lines to be written.
const LAST: Duration = Duration::from_secs(3);

/// A message to the thread `lines`.
enum Message {
    Window(Arc<Window>, Origin),
    Job(Job),
    /// The last message.
    End,
}

/// Accepts windows that have ended. Shared with the worker.
#[derive(Default)]
struct WindowInput {
    /// `None` while nothing is exported.
    messages: ArcSwapOption<Sender<Message>>,
    /// Number of windows that wait to be converted to lines.
    waiting: Arc<AtomicUsize>,
}

/// Starts the threads and changes their configuration.
pub struct LinesSink {
    input: Arc<WindowInput>,
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

/// A change of the configuration that is ready to be adopted.
pub enum Prepared {
    Same,
    Off,
    Limits(Limits),
    File(LinesFile, Limits),
}

impl LinesSink {
    /// A sink that exports nothing yet. `shown` decides what lines contain.
    pub fn new(shown: Arc<CurrentView>) -> Self {
        Self {
            input: Arc::default(),
            shown,
            current: None,
            threads: None,
        }
    }

    /// The function to call for each window that has ended.
    pub fn on_turn(&self) -> OnTurn {
        let input = Arc::clone(&self.input);
        Arc::new(move |interface, window, tally| input.take(interface, window, tally))
    }

    /// Whether lines are written at the moment.
    pub fn is_on(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the file contained a window when the agent was started, by its interface and its
    /// start. The file is read at the first call.
    pub fn was_written(&self) -> WasReported {
        let path = self.current.as_ref().map(|(path, _)| path.clone());
        let windows = LazyCell::new(move || path.map(|path| written::windows(&path)));
        Box::new(move |interface, start| {
            let key = (interface.to_owned(), written::milliseconds(start));
            windows
                .as_ref()
                .is_some_and(|windows| windows.contains(&key))
        })
    }

    /// Opens the file of a configuration and starts the threads if necessary.
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

    /// Applies a change, from the next window that ends.
    pub fn adopt(&mut self, prepared: Prepared) {
        let Some(threads) = &self.threads else {
            return;
        };
        let job = match prepared {
            Prepared::Same => return,
            Prepared::Off => {
                self.current = None;
                self.input.messages.store(None);
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
        // If the thread has ended, lines are counted as lost when windows are sent.
        let _ = threads.messages.send(Message::Job(job));
        if self.current.is_some() {
            let messages = threads.messages.clone();
            self.input.messages.store(Some(Arc::new(messages)));
        }
    }

    fn start(&self) -> anyhow::Result<Threads> {
        let (messages, message_receiver) = mpsc::channel();
        let (jobs, job_receiver) = mpsc::channel();
        let bytes = Arc::new(AtomicUsize::new(0));
        let queue = Queue::new(jobs, Arc::clone(&bytes));
        let (shown, waiting) = (Arc::clone(&self.shown), Arc::clone(&self.input.waiting));
        let making = thread::Builder::new()
            .name("lines".into())
            .spawn(move || make_all(&message_receiver, &shown, &waiting, queue))?;
        let writing = thread::Builder::new()
            .name("jsonl".into())
            .spawn(move || queue::write_all(&job_receiver, &bytes))?;
        Ok(Threads {
            messages,
            making,
            writing,
        })
    }

    /// Waits a limited time until all lines are written.
    pub fn finish(mut self) {
        let Some(threads) = self.threads.take() else {
            return;
        };
        self.input.messages.store(None);
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

impl WindowInput {
    /// Sends a window that has ended to the thread `lines`.
    fn take(&self, interface: &str, window: &Arc<Window>, tally: &Arc<Tally>) {
        let messages = self.messages.load();
        let Some(messages) = &*messages else {
            return;
        };
        let origin = Origin {
            interface: interface.into(),
            tally: Arc::clone(tally),
        };
        if self.waiting.fetch_add(1, Relaxed) >= MOST_WINDOWS {
            self.waiting.fetch_sub(1, Relaxed);
            // Only its first line is counted, because it is not converted.
            return origin.count_lost(1);
        }
        if messages
            .send(Message::Window(Arc::clone(window), origin.clone()))
            .is_err()
        {
            self.waiting.fetch_sub(1, Relaxed);
            origin.count_lost(1);
        }
    }
}

/// Converts windows to lines until the last message.
fn make_all(
    messages: &Receiver<Message>,
    shown: &CurrentView,
    waiting: &AtomicUsize,
    mut queue: Queue,
) {
    let host = host::name();
    for message in messages {
        match message {
            Message::Window(window, origin) => {
                let text = panics::catch(|| text(&host, &origin.interface, &window, shown));
                drop(window);
                waiting.fetch_sub(1, Relaxed);
                match text {
                    Some(text) => queue.append(text, origin),
                    None => origin.count_lost(1),
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
