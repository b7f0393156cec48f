//! A buffer on a stream, which grows to the size of the largest record.

use std::io::{self, Read};

use super::damage::Damage;
use super::input::Input;
use super::read_ahead::{ROOM, ReadAhead};

/// Size of a read, and smallest size of the buffer.
const CHUNK: usize = 256 << 10;

/// The part of a stream that records are parsed from without copying.
pub struct Buffer {
    source: Source,
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    offset: u64,
}

/// Where the bytes come from.
enum Source {
    Direct(Input),
    Ahead(ReadAhead),
}

impl Buffer {
    /// A buffer at the start of `input`.
    pub fn new(input: Input) -> Self {
        Self::of(Source::Direct(input), CHUNK)
    }

    /// The same, with a thread that reads ahead.
    pub fn ahead_of(input: Input) -> io::Result<Self> {
        Ok(Self::of(Source::Ahead(ReadAhead::start(input)?), 0))
    }

    fn of(source: Source, size: usize) -> Self {
        Self {
            source,
            bytes: vec![0; size],
            start: 0,
            end: 0,
            offset: 0,
        }
    }

    /// Returns the next `wanted` bytes, or fewer at the end of the stream, without
    /// consuming them.
    #[inline]
    pub fn peek(&mut self, wanted: usize) -> Result<&[u8], Damage> {
        if self.end - self.start < wanted {
            self.fill(wanted)?;
        }
        let end = self.end.min(self.start + wanted);
        Ok(&self.bytes[self.start..end])
    }

    /// Returns the next `length` bytes without consuming them, or `None` at the end of the
    /// stream. It is an error if there are fewer.
    #[inline]
    pub fn head(&mut self, length: usize) -> Result<Option<&[u8]>, Damage> {
        match self.peek(length)? {
            [] => Ok(None),
            bytes if bytes.len() < length => Err(Damage::CutOff),
            bytes => Ok(Some(bytes)),
        }
    }

    /// Consumes and returns the next `length` bytes. It is an error if there are fewer.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&[u8], Damage> {
        if self.peek(length)?.len() < length {
            return Err(Damage::CutOff);
        }
        let start = self.start;
        self.start += length;
        self.offset += length as u64;
        Ok(&self.bytes[start..start + length])
    }

    /// Returns bytes ahead without consuming them: for a file up to `wanted` bytes, for a
    /// pipe those that have already arrived.
    pub fn ahead(&mut self, wanted: usize) -> Result<&[u8], Damage> {
        if self.length().is_some() {
            self.peek(wanted)?;
        }
        Ok(&self.bytes[self.start..self.end])
    }

    #[cold]
    fn fill(&mut self, wanted: usize) -> Result<(), Damage> {
        match &mut self.source {
            Source::Direct(_) => self.fill_directly(wanted),
            Source::Ahead(_) => self.fill_from_chunks(wanted),
        }
    }

    fn fill_directly(&mut self, wanted: usize) -> Result<(), Damage> {
        let Source::Direct(input) = &mut self.source else {
            return Ok(());
        };
        if self.start + wanted > self.bytes.len() || self.start == self.end {
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if wanted > self.bytes.len() {
                self.bytes.resize(wanted, 0);
            }
        }
        while self.end - self.start < wanted {
            match input.read(&mut self.bytes[self.end..]) {
                Ok(0) => break,
                Ok(read) => self.end += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Chunks replace the buffer: only what is left of the one before is copied.
    fn fill_from_chunks(&mut self, wanted: usize) -> Result<(), Damage> {
        let Source::Ahead(ahead) = &mut self.source else {
            return Ok(());
        };
        while self.end - self.start < wanted {
            let Some(mut chunk) = ahead.next()? else {
                break;
            };
            let left = &self.bytes[self.start..self.end];
            if let Some(start) = ROOM.checked_sub(left.len()) {
                chunk.bytes[start..ROOM].copy_from_slice(left);
                (self.start, self.end) = (start, chunk.end);
                ahead.give_back(std::mem::replace(&mut self.bytes, chunk.bytes));
            } else {
                // A record that is larger than a chunk has room before it.
                let joined = [left, &chunk.bytes[ROOM..chunk.end]].concat();
                (self.start, self.end) = (0, joined.len());
                self.bytes = joined;
                ahead.give_back(chunk.bytes);
            }
        }
        Ok(())
    }

    /// Returns how many bytes of the stream have been consumed.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// How much of the file on the disk has been read.
    pub fn position(&self) -> u64 {
        match &self.source {
            Source::Direct(input) => input.position(),
            Source::Ahead(ahead) => ahead.position(),
        }
    }

    /// How long the file on the disk is; unknown for pipes.
    pub fn length(&self) -> Option<u64> {
        match &self.source {
            Source::Direct(input) => input.length(),
            Source::Ahead(ahead) => ahead.length(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_any_length_are_returned_whole_and_in_order() {
        let stream: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let input = || Input::new(io::Cursor::new(stream.clone())).unwrap();
        records_come(&stream, Buffer::new(input()));
        records_come(&stream, Buffer::ahead_of(input()).unwrap());
    }

    fn records_come(stream: &[u8], mut buffer: Buffer) {
        let lengths = [1, 300_000, 16, CHUNK - 1, CHUNK, CHUNK + 1, 1_000_000, 77];
        let mut passed = 0;
        for length in lengths.into_iter().cycle() {
            let record = &stream[passed..stream.len().min(passed + length)];
            assert_eq!(buffer.peek(length).unwrap(), record);
            assert_eq!(buffer.offset(), passed as u64);
            if record.len() < length {
                assert!(matches!(buffer.take(length), Err(Damage::CutOff)));
                break;
            }
            assert_eq!(buffer.take(length).unwrap(), record);
            passed += length;
        }
    }
}
