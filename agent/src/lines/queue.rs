//! The queue of lines to be written. Its size is limited: if the disk is so slow that the queue is
//! full, further lines are lost and counted, so that no other thread waits for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};

use super::file::{Limits, LinesFile, count};
use crate::process::log::RateLimit;
use crate::traffic::tally::Tally;

/// Bytes that may wait to be written.
pub const ROOM: usize = 8 << 20;

/// A job for the thread that writes the file.
pub enum Job {
    /// Append the lines of a window.
    Append(String, Origin),
    /// Write the following lines to another file, or discard them if `None`.
    File(Option<LinesFile>),
    /// Set other limits.
    Limits(Limits),
}

/// The interface of lines, and the counter of its lost lines.
#[derive(Clone)]
pub struct Origin {
    pub interface: String,
    pub tally: Arc<Tally>,
}

impl Origin {
    /// Adds to the number of lost lines.
    pub fn count_lost(&self, lines: u64) {
        self.tally.lines_lost.fetch_add(lines, Relaxed);
    }
}

/// The sending side of the queue.
pub struct Queue {
    jobs: Sender<Job>,
    waiting: Arc<AtomicUsize>,
    log_limit: RateLimit,
}

impl Queue {
    /// A queue that sends to [`write_all`], which subtracts what it has written from `waiting`.
    pub fn new(jobs: Sender<Job>, waiting: Arc<AtomicUsize>) -> Self {
        Self {
            jobs,
            waiting,
            log_limit: RateLimit::default(),
        }
    }

    /// Sends lines to be appended. If the queue is full, they are lost.
    pub fn append(&mut self, text: String, origin: Origin) {
        let bytes = text.len();
        let waiting = self.waiting.load(Relaxed);
        // An empty queue accepts lines of any size, so that no window is too large.
        if waiting > 0 && waiting.saturating_add(bytes) > ROOM {
            origin.count_lost(count(&text));
            if self.log_limit.allows() {
                tracing::warn!(
                    interface = origin.interface,
                    "lines of export.jsonl are lost: the disk is too slow"
                );
            }
            return;
        }
        self.waiting.fetch_add(bytes, Relaxed);
        self.send(Job::Append(text, origin));
    }

    /// Sends a job. Lines are lost if the thread has ended.
    pub fn send(&self, job: Job) {
        if let Err(refused) = self.jobs.send(job)
            && let Job::Append(text, origin) = refused.0
        {
            self.waiting.fetch_sub(text.len(), Relaxed);
            origin.count_lost(count(&text));
        }
    }
}

/// Executes jobs until the queue is dropped.
pub fn write_all(jobs: &Receiver<Job>, waiting: &AtomicUsize) {
    let (mut log_limit, mut failing) = (RateLimit::default(), false);
    let mut file: Option<LinesFile> = None;
    for job in jobs {
        let (text, origin) = match job {
            Job::Append(text, origin) => (text, origin),
            Job::File(next) => {
                file = next;
                continue;
            }
            Job::Limits(limits) => {
                if let Some(file) = &mut file {
                    file.limit(limits);
                }
                continue;
            }
        };
        let (written, result) = match &mut file {
            Some(file) => file.append(&text),
            // export.jsonl was removed meanwhile, so these lines do not count as lost.
            None => (count(&text), Ok(())),
        };
        waiting.fetch_sub(text.len(), Relaxed);
        origin.count_lost(count(&text) - written);
        let path = file.as_ref().map(LinesFile::path).unwrap_or("".as_ref());
        match result {
            Ok(()) if std::mem::take(&mut failing) => {
                tracing::info!("lines are written to {} again", path.display());
            }
            Ok(()) => {}
            Err(error) => {
                failing = true;
                if log_limit.allows() {
                    tracing::warn!(
                        interface = origin.interface,
                        "lines are lost: {} cannot be written: {error}",
                        path.display()
                    );
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// While nothing is written, the queue fills up and further lines are counted as lost.
    #[test]
    fn lines_that_do_not_fit_into_the_queue_are_counted_as_lost() {
        let (jobs, receiver) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut queue = Queue::new(jobs, Arc::clone(&waiting));
        let origin = Origin {
            interface: "eth0".into(),
            tally: Arc::default(),
        };
        let lost = || origin.tally.lines_lost.load(Relaxed);
        let text = "x\n".repeat(ROOM / 8);
        for _ in 0..4 {
            queue.append(text.clone(), origin.clone());
        }
        assert_eq!((lost(), waiting.load(Relaxed)), (0, ROOM));
        queue.append("1\n2\n3\n".into(), origin.clone());
        assert_eq!(lost(), 3);
        // Once a thread writes, no more lines are lost.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        let limits = Limits {
            bytes: 1 << 30,
            files: 2,
        };
        let writing = std::thread::spawn({
            let waiting = Arc::clone(&waiting);
            let mut file = Some(LinesFile::open(&path, limits).unwrap());
            move || {
                let (jobs, to_write) = mpsc::channel();
                jobs.send(Job::File(file.take())).unwrap();
                for job in receiver {
                    jobs.send(job).unwrap();
                }
                drop(jobs);
                write_all(&to_write, &waiting);
            }
        });
        drop(queue);
        writing.join().unwrap();
        assert_eq!((lost(), waiting.load(Relaxed)), (3, 0));
        assert_eq!(std::fs::metadata(path).unwrap().len(), ROOM as u64);
    }
}
