//! A thread that writes windows, so that the worker does not wait for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::folder::StateFiles;
use super::settings::Settings;
use super::window::SavedWindow;
use crate::process::log::RateLimit;
use crate::traffic::tally::Tally;

/// Bytes that may wait to be written before the worker saves another window.
const ROOM: usize = 4 << 20;
/// Pause between two checks for room.
const STEP: Duration = Duration::from_millis(5);
/// How long a stop waits for the last windows to be written.
const LAST: Duration = Duration::from_secs(3);

enum Job {
    Save(Box<SavedWindow>, Arc<Settings>, Vec<u8>, Arc<Tally>),
    Forget(String),
}

/// Sends windows to the thread. The thread ends when this is dropped and everything is written.
pub struct Saver {
    jobs: Sender<Job>,
    waiting: Arc<AtomicUsize>,
    /// Pause between two saves of an interface.
    pub interval: Duration,
}

pub fn start(files: StateFiles, interval: Duration) -> anyhow::Result<(Saver, JoinHandle<()>)> {
    let (jobs, receiver) = mpsc::channel();
    let waiting = Arc::new(AtomicUsize::new(0));
    let written = Arc::clone(&waiting);
    let thread = thread::Builder::new()
        .name("save".into())
        .spawn(move || write_all(files, &receiver, &written))?;
    let saver = Saver {
        jobs,
        waiting,
        interval,
    };
    Ok((saver, thread))
}

impl Saver {
    /// Whether another window can be sent.
    pub fn has_room(&self) -> bool {
        self.waiting.load(Relaxed) < ROOM
    }

    /// Waits for room until this time at most. Returns whether there is room.
    pub fn wait_for_room(&self, until: Instant) -> bool {
        while !self.has_room() {
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(STEP);
        }
        true
    }

    /// Saves a window whose packets were stored under these settings. Errors are counted in
    /// `tally`.
    pub fn save(
        &self,
        window: SavedWindow,
        settings: &Arc<Settings>,
        body: Vec<u8>,
        tally: &Arc<Tally>,
    ) {
        let bytes = body.len();
        self.waiting.fetch_add(bytes, Relaxed);
        let (settings, tally_of_job) = (Arc::clone(settings), Arc::clone(tally));
        let job = Job::Save(Box::new(window), settings, body, tally_of_job);
        if self.jobs.send(job).is_err() {
            self.waiting.fetch_sub(bytes, Relaxed);
            tally.save_failures.fetch_add(1, Relaxed);
        }
    }

    /// Removes the file of an interface.
    pub fn forget(&self, interface: &str) {
        // If the thread has ended, the file stays; the next run checks it.
        let _ = self.jobs.send(Job::Forget(interface.into()));
    }
}

/// Waits a limited time until all windows are written.
pub fn finish(writing: JoinHandle<()>) {
    let start = Instant::now();
    while !writing.is_finished() {
        if start.elapsed() >= LAST {
            tracing::warn!("not all windows are saved: the disk is too slow");
            return;
        }
        thread::sleep(STEP);
    }
}

fn write_all(mut files: StateFiles, jobs: &Receiver<Job>, waiting: &AtomicUsize) {
    let (mut log_limit, mut failing) = (RateLimit::default(), false);
    for job in jobs {
        let (window, settings, body, tally) = match job {
            Job::Save(window, settings, body, tally) => (window, settings, body, tally),
            Job::Forget(interface) => {
                files.forget(&interface);
                continue;
            }
        };
        let saved = files.save(&window, &settings, &body);
        waiting.fetch_sub(body.len(), Relaxed);
        let interface = &window.interface;
        match saved {
            Ok(()) if std::mem::take(&mut failing) => {
                tracing::info!(interface, "windows are saved again");
            }
            Ok(()) => {}
            Err(error) => {
                tally.save_failures.fetch_add(1, Relaxed);
                failing = true;
                if log_limit.allows() {
                    tracing::warn!(
                        interface,
                        "the window cannot be saved: {error}; the one saved before stays, and a \
                         restart would begin with that"
                    );
                }
            }
        }
    }
}
