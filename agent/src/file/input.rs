//! Files and standard input as streams of bytes. gzip and Zstandard are detected by
//! content, never by name, and decompressed.

use std::fs::File;
use std::io::{self, BufReader, Chain, Cursor, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::process::stop;

pub const STDIN: &str = "-";

/// How much of a compressed file is read at once.
const READ_SIZE: usize = 64 << 10;
/// How much is decompressed at once. If a decoder finds damage, the output of the current
/// step is lost, so steps are small.
const STEP: usize = 16 << 10;

/// A stream of bytes, decompressed if necessary.
pub struct Input {
    stream: Stream,
    length: Option<u64>,
}

enum Stream {
    Plain(Source),
    Gzip(Box<MultiGzDecoder<BufReader<Source>>>),
    Zstandard(Box<zstd::Decoder<'static, BufReader<Source>>>),
}

/// The raw stream: the bytes that were read to detect the format, then the others.
struct Source {
    bytes: Chain<Cursor<Vec<u8>>, Box<dyn Read + Send>>,
    read: u64,
}

impl Input {
    /// Opens a file, or standard input for `-`.
    pub fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new(STDIN) {
            // Bypasses the buffer of the standard library: poll() does not see bytes in it.
            let stdin = io::stdin().as_fd().try_clone_to_owned()?;
            return Self::new(Interruptible(File::from(stdin)));
        }
        // Opening a pipe without a writer must not block, so that signals are handled.
        let file = File::options()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Self::new(Interruptible(file));
        }
        let mut input = Self::new(file)?;
        input.length = Some(meta.len());
        Ok(input)
    }

    /// Reads the first bytes of `source` to detect compression.
    pub fn new(mut source: impl Read + Send + 'static) -> io::Result<Self> {
        let mut head = Vec::new();
        source.by_ref().take(4).read_to_end(&mut head)?;
        let format = head.clone();
        let source = Source {
            bytes: Cursor::new(head).chain(Box::new(source)),
            read: 0,
        };
        let buffered = |source| BufReader::with_capacity(READ_SIZE, source);
        let stream = match format[..] {
            [0x1f, 0x8b, ..] => Stream::Gzip(Box::new(MultiGzDecoder::new(buffered(source)))),
            // A frame, or a skippable frame; parallel compressors start with the latter.
            [0x28, 0xb5, 0x2f, 0xfd] | [0x50..=0x5f, 0x2a, 0x4d, 0x18] => {
                Stream::Zstandard(Box::new(zstd::Decoder::with_buffer(buffered(source))?))
            }
            _ => Stream::Plain(source),
        };
        Ok(Self {
            stream,
            length: None,
        })
    }

    /// Returns how many bytes of the file on disk have been read.
    pub fn position(&self) -> u64 {
        match &self.stream {
            Stream::Plain(source) => source.read,
            Stream::Gzip(decoder) => decoder.get_ref().get_ref().read,
            Stream::Zstandard(decoder) => decoder.get_ref().get_ref().read,
        }
    }

    /// Returns the size of the file on disk. `None` for pipes.
    pub fn length(&self) -> Option<u64> {
        self.length
    }
}

impl Read for Input {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let step = buffer.len().min(STEP);
        match &mut self.stream {
            Stream::Plain(source) => source.read(buffer),
            Stream::Gzip(decoder) => decoder.read(&mut buffer[..step]),
            Stream::Zstandard(decoder) => decoder.read(&mut buffer[..step]),
        }
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read(buffer)?;
        self.read += read as u64;
        Ok(read)
    }
}

/// A pipe or a terminal. A read waits for bytes; if a signal to stop arrives, it returns
/// the end of the stream.
struct Interruptible(File);

impl Read for Interruptible {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let tick = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        while !stop::is_requested() {
            let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut fds, Some(&tick)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => match self.0.read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                },
                Err(error) => return Err(error.into()),
            }
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    fn zstandard(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    /// Returns the decompressed bytes and how the stream ended.
    fn unpack(bytes: Vec<u8>) -> (Vec<u8>, io::Result<usize>) {
        let mut unpacked = Vec::new();
        let end = Input::new(Cursor::new(bytes)).and_then(|mut i| i.read_to_end(&mut unpacked));
        (unpacked, end)
    }

    /// Bytes that hardly compress.
    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        (0..length).map(|_| next()).collect()
    }

    #[test]
    fn all_members_and_frames_are_decompressed() {
        let skipped = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"xyz"].concat();
        for (what, bytes) in [
            ("plain", b"one, two".to_vec()),
            ("gzip", gzip(b"one, two")),
            (
                "members",
                [gzip(b"one, "), gzip(b""), gzip(b"two")].concat(),
            ),
            (
                "frames",
                [zstandard(b"one, "), skipped.clone(), zstandard(b"two")].concat(),
            ),
            (
                "a frame to skip first",
                [skipped.clone(), zstandard(b"one, two"), skipped].concat(),
            ),
        ] {
            let (unpacked, end) = unpack(bytes);
            assert_eq!(unpacked, b"one, two", "{what}");
            assert!(end.is_ok(), "{what}");
        }
        for short in [&b""[..], b"a", b"abc"] {
            assert_eq!(unpack(short.to_vec()).0, short);
        }
    }

    #[test]
    fn content_before_the_damage_is_decompressed() {
        let bytes = noise(300_000);
        for packed in [gzip(&bytes), zstandard(&bytes)] {
            for cut in [5, 1000, packed.len() / 2, packed.len() - 1] {
                let (unpacked, end) = unpack(packed[..cut].to_vec());
                let end = end.unwrap_err();
                assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof, "{end}");
                assert!(bytes.starts_with(&unpacked));
                // A Zstandard block holds up to 128 KiB.
                assert!(unpacked.len() + (130 << 10) >= cut.min(bytes.len()));
            }
            let mut damaged = packed.clone();
            damaged.extend(b"rubbish");
            let (unpacked, end) = unpack(damaged);
            assert_eq!(unpacked, bytes);
            assert!(end.is_err());
        }
    }

    #[test]
    fn blocks_before_a_damaged_block_are_decompressed() {
        let bytes: Vec<u8> = noise(300_000).iter().map(|byte| byte & 15).collect();
        let mut packed = zstandard(&bytes);
        let blocks = bytes.len() / (128 << 10);
        // The magic number, a byte of flags and one for the window size are followed by
        // blocks with 3 bytes of length and type; type 3 does not exist.
        let mut at = 6;
        for _ in 0..blocks {
            let head = u32::from_le_bytes([packed[at], packed[at + 1], packed[at + 2], 0]);
            at += 3 + (head >> 3) as usize;
        }
        packed[at] |= 6;
        let mut input = Input::new(Cursor::new(packed)).unwrap();
        let (mut buffer, mut unpacked) = (vec![0; 1 << 20], 0);
        while let Ok(read) = input.read(&mut buffer) {
            assert_eq!(buffer[..read], bytes[unpacked..][..read]);
            unpacked += read;
        }
        assert_eq!(unpacked, blocks * (128 << 10));
    }

    #[test]
    fn position_and_length_are_those_of_the_compressed_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packed");
        let packed = gzip(&noise(300_000));
        std::fs::write(&path, &packed).unwrap();
        let mut input = Input::open(&path).unwrap();
        assert_eq!(input.length(), Some(packed.len() as u64));
        input.read_exact(&mut [0; 1000]).unwrap();
        assert!((1000..packed.len() as u64 / 2).contains(&input.position()));
        io::copy(&mut input, &mut io::sink()).unwrap();
        assert_eq!(input.position(), packed.len() as u64);
    }
}
