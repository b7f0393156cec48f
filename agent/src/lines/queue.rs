//! Lines on their way to the disk. There is room for so many bytes: what comes when a slow
//! disk has filled it is lost, and counted, so that nothing else waits for the disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender};

use super::file::{Limits, LinesFile, count};
use crate::process::log::RateLimit;
use crate::traffic::tally::Tally;

/// Bytes that may wait to be written.
pub const ROOM: usize = 8 << 20;

/// What is to be done with the file, one after the other.
pub enum Job {
    /// Append the lines of a window, whose losses are counted there.
    Append(String, Lines),
    /// Write to another file from now on, or to none.
    File(Option<LinesFile>),
    /// Go by other limits from now on.
    Limits(Limits),
}

/// Whose lines these are.
#[derive(Clone)]
pub struct Lines {
    pub interface: String,
    pub tally: Arc<Tally>,
}

impl Lines {
    /// Counts lines that are lost.
    pub fn lose(&self, lines: u64) {
        self.tally.lines_lost.fetch_add(lines, Relaxed);
    }
}

/// The end that lines are handed in at.
pub struct Queue {
    jobs: Sender<Job>,
    waiting: Arc<AtomicUsize>,
    complaints: RateLimit,
}

impl Queue {
    /// Hands in jobs for who [writes](write_all) and counts down `waiting`.
    pub fn new(jobs: Sender<Job>, waiting: Arc<AtomicUsize>) -> Self {
        Self {
            jobs,
            waiting,
            complaints: RateLimit::default(),
        }
    }

    /// Has lines appended, if there is room for them.
    pub fn append(&mut self, text: String, of: Lines) {
        let bytes = text.len();
        let waiting = self.waiting.load(Relaxed);
        // Alone they are let in however long they are: no window is too large for ever.
        if waiting > 0 && waiting.saturating_add(bytes) > ROOM {
            of.lose(count(&text));
            if self.complaints.allows() {
                tracing::warn!(
                    interface = of.interface,
                    "lines of export.jsonl are lost: the disk is too slow"
                );
            }
            return;
        }
        self.waiting.fetch_add(bytes, Relaxed);
        self.send(Job::Append(text, of));
    }

    /// Hands in a job that takes no room.
    pub fn send(&self, job: Job) {
        if let Err(refused) = self.jobs.send(job)
            && let Job::Append(text, of) = refused.0
        {
            self.waiting.fetch_sub(text.len(), Relaxed);
            of.lose(count(&text));
        }
    }
}

/// Does jobs until there are no more.
pub fn write_all(jobs: &Receiver<Job>, waiting: &AtomicUsize) {
    let (mut complaints, mut failing) = (RateLimit::default(), false);
    let mut file: Option<LinesFile> = None;
    for job in jobs {
        let (text, of) = match job {
            Job::Append(text, of) => (text, of),
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
            // Turned off meanwhile: nobody wants them.
            None => (count(&text), Ok(())),
        };
        waiting.fetch_sub(text.len(), Relaxed);
        of.lose(count(&text) - written);
        let path = file.as_ref().map(LinesFile::path).unwrap_or("".as_ref());
        match result {
            Ok(()) if std::mem::take(&mut failing) => {
                tracing::info!("lines are written to {} again", path.display());
            }
            Ok(()) => {}
            Err(error) => {
                failing = true;
                if complaints.allows() {
                    tracing::warn!(
                        interface = of.interface,
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

    /// Nobody writes: as much as there is room for waits, and all others are counted.
    #[test]
    fn a_disk_that_is_slow_costs_lines_and_they_are_counted() {
        let (jobs, waits) = mpsc::channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut queue = Queue::new(jobs, Arc::clone(&waiting));
        let of = Lines {
            interface: "eth0".into(),
            tally: Arc::default(),
        };
        let lost = || of.tally.lines_lost.load(Relaxed);
        let text = "x\n".repeat(ROOM / 8);
        for _ in 0..4 {
            queue.append(text.clone(), of.clone());
        }
        assert_eq!((lost(), waiting.load(Relaxed)), (0, ROOM));
        queue.append("1\n2\n3\n".into(), of.clone());
        assert_eq!(lost(), 3);
        // Written again, nothing more is lost.
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
                for job in waits {
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
