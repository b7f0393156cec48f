//! Reads a file, and decompresses it, in a thread of its own while the packets before are parsed.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use super::input::Input;

/// Bytes of a chunk. Two of them and the one that is parsed fit the cache of a core.
const CHUNK: usize = 256 << 10;
/// Chunks that are read and not parsed yet.
const WAITING: usize = 3;
/// Free bytes before each chunk, for the start of a record that ends in it.
pub const ROOM: usize = 64 << 10;

/// A part of the stream.
pub struct Chunk {
    /// [`ROOM`] bytes, then those of the stream.
    pub bytes: Vec<u8>,
    /// Where those of the stream end.
    pub end: usize,
}

/// The receiving end. The thread ends when it is dropped.
pub struct ReadAhead {
    chunks: Receiver<io::Result<Chunk>>,
    free: SyncSender<Vec<u8>>,
    position: Arc<AtomicU64>,
    length: Option<u64>,
    ended: bool,
}

impl ReadAhead {
    /// Begins to read.
    pub fn start(input: Input) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(WAITING);
        let (free, used) = sync_channel(WAITING + 2);
        let position = Arc::new(AtomicU64::new(input.position()));
        let (length, at) = (input.length(), Arc::clone(&position));
        let thread = thread::Builder::new().name("read-ahead".into());
        thread.spawn(move || read_all(input, &at, &sender, &used))?;
        Ok(Self {
            chunks,
            free,
            position,
            length,
            ended: false,
        })
    }

    /// The next chunk, or `None` at the end of the stream.
    pub fn next(&mut self) -> io::Result<Option<Chunk>> {
        if self.ended {
            return Ok(None);
        }
        let chunk = self.chunks.recv();
        let chunk = chunk.map_err(|_| io::Error::other("the thread that reads has ended"))??;
        self.ended = chunk.end == ROOM;
        Ok(Some(chunk).filter(|_| !self.ended))
    }

    /// Returns the memory of a chunk.
    pub fn give_back(&self, bytes: Vec<u8>) {
        if bytes.len() == ROOM + CHUNK {
            let _ = self.free.try_send(bytes);
        }
    }

    /// How many bytes of the file on disk have been read.
    pub fn position(&self) -> u64 {
        self.position.load(Relaxed)
    }

    /// Size of the file on disk.
    pub fn length(&self) -> Option<u64> {
        self.length
    }
}

/// Reads until the end of the stream or an error, or until the receiver is dropped.
fn read_all(
    mut input: Input,
    position: &AtomicU64,
    chunks: &SyncSender<io::Result<Chunk>>,
    free: &Receiver<Vec<u8>>,
) {
    loop {
        let mut bytes = free.try_recv().unwrap_or_else(|_| vec![0; ROOM + CHUNK]);
        let (mut end, mut last) = (ROOM, None);
        while end < bytes.len() && last.is_none() {
            match input.read(&mut bytes[end..]) {
                Ok(0) => last = Some(Ok(())),
                Ok(read) => end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => last = Some(Err(error)),
            }
        }
        position.store(input.position(), Relaxed);
        // What came before an error is not lost. An empty chunk is the end.
        if end > ROOM && chunks.send(Ok(Chunk { bytes, end })).is_err() {
            return;
        }
        let (bytes, end) = (Vec::new(), ROOM);
        let last = match last {
            Some(Err(error)) => Err(error),
            Some(Ok(())) => Ok(Chunk { bytes, end }),
            None => continue,
        };
        let _ = chunks.send(last);
        return;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a megabyte, then an error of the system.
    struct Failing(usize);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::Error::from_raw_os_error(5));
            }
            let read = buffer.len().min(self.0).min(1000);
            self.0 -= read;
            Ok(read)
        }
    }

    #[test]
    fn all_bytes_before_an_error_arrive_and_then_the_error() {
        let mut ahead = ReadAhead::start(Input::new(Failing(500_000)).unwrap()).unwrap();
        let mut arrived = 0;
        let error = loop {
            match ahead.next() {
                Ok(Some(chunk)) => arrived += chunk.end - ROOM,
                Ok(None) => panic!("no error"),
                Err(error) => break error,
            }
        };
        assert_eq!((arrived, error.raw_os_error()), (500_000, Some(5)));
    }

    #[test]
    fn the_thread_ends_when_its_reader_is_dropped() {
        let input = Input::new(io::repeat(0)).unwrap();
        let position = {
            let mut ahead = ReadAhead::start(input).unwrap();
            assert!(ahead.next().unwrap().is_some());
            Arc::clone(&ahead.position)
        };
        while Arc::strong_count(&position) > 1 {
            thread::yield_now();
        }
    }
}
