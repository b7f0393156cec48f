//! A window in a file: eight letters, the head with its checksum, the sketches.
//!
//! The head has a checksum of its own and that of the sketches, so that a few bytes tell
//! whether a file is worth reading.

use sha2::{Digest, Sha256};

use super::parts::{put, put_part, take, take_part};
use super::settings::Settings;

/// What every version begins with.
const KIND: &[u8; 6] = b"CRANEw";
const VERSION: &[u8; 2] = b"01";
/// The beginning, and the length of the head.
const FIXED: usize = 8 + 8;
/// A head has a name, settings with a filter, and some numbers.
pub const MOST_HEAD: usize = 64 << 10;
const CHECKSUM: usize = 32;
/// No count and no time, in nanoseconds, is beyond this.
const MOST: u64 = 1 << 62;

/// What is known of a window without its sketches. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWindow {
    /// Of which interface.
    pub interface: String,
    /// Its number, from which places in its sketches follow.
    pub number: u64,
    /// When it began, since 1970.
    pub start: u64,
    /// When it was saved, since 1970.
    pub saved: u64,
    /// For how long it had lasted then.
    pub lasted: u64,
    /// For how long it was still to go on.
    pub left: u64,
    /// How much of it no agent has seen, because none ran.
    pub unseen: u64,
    /// Packets stored.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that a sample left out.
    pub left_out: u64,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The window has ended: as it should be.
    Ended,
    /// It is another's, or is of other settings.
    Foreign(String),
    /// It is damaged.
    Bad(&'static str),
}

/// A head that is as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The window.
    pub window: SavedWindow,
    /// Its settings.
    pub settings: String,
    /// Where the sketches begin.
    pub length: usize,
    /// The length of the sketches.
    pub body: u64,
    checksum: [u8; CHECKSUM],
}

impl SavedWindow {
    fn numbers(&self) -> [u64; 9] {
        [
            self.number,
            self.start,
            self.saved,
            self.lasted,
            self.left,
            self.unseen,
            self.packets,
            self.bytes,
            self.left_out,
        ]
    }

    /// All of a file before the sketches in `body`.
    pub fn head(&self, settings: &Settings, body: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        put_part(&mut head, self.interface.as_bytes());
        put_part(&mut head, settings.0.as_bytes());
        for number in self.numbers() {
            put(&mut head, number);
        }
        put(&mut head, body.len() as u64);
        head.extend(checksum(body));
        let mut file = [&KIND[..], VERSION].concat();
        put_part(&mut file, &head);
        file.extend(checksum(&head));
        file
    }

    /// How long ago it was saved; an error unless it is still going on `now`, of the
    /// wall clock.
    pub fn age(&self, now: u64) -> Result<u64, Refusal> {
        let age = now.checked_sub(self.saved).ok_or_else(|| {
            Refusal::Foreign("it was saved in the future: the clock was set".into())
        })?;
        match age < self.left {
            true => Ok(age),
            false => Err(Refusal::Ended),
        }
    }
}

impl Head {
    /// The head of a file, of which these are the first bytes.
    pub fn read(file: &[u8]) -> Result<Self, Refusal> {
        const BREAKS_OFF: Refusal = Refusal::Bad("it breaks off");
        let Some((start, mut rest)) = file.split_at_checked(KIND.len() + VERSION.len()) else {
            return Err(BREAKS_OFF);
        };
        let Some(version) = start.strip_prefix(KIND) else {
            return Err(Refusal::Bad("it does not begin like a window"));
        };
        if version != VERSION {
            let version = String::from_utf8_lossy(version).into_owned();
            return Err(Refusal::Foreign(format!(
                "it is of another version of the agent ({version:?})"
            )));
        }
        let head = take_part(&mut rest).filter(|head| head.len() <= MOST_HEAD);
        let head = head.ok_or(BREAKS_OFF)?;
        let sum = rest.split_at_checked(CHECKSUM).ok_or(BREAKS_OFF)?.0;
        if sum != checksum(head) {
            return Err(Refusal::Bad("its checksum is wrong"));
        }
        let length = FIXED + head.len() + CHECKSUM;
        parse(head, length).ok_or(Refusal::Bad("it is not possible"))
    }

    /// Whether these are the sketches that were written with it.
    pub fn owns(&self, body: &[u8]) -> bool {
        body.len() as u64 == self.body && checksum(body) == self.checksum
    }
}

fn parse(mut head: &[u8], length: usize) -> Option<Head> {
    let head = &mut head;
    let mut text = || String::from_utf8(take_part(head)?.to_vec()).ok();
    let (interface, settings) = (text()?, text()?);
    let mut number = || take(head).filter(|number| *number <= MOST);
    let window = SavedWindow {
        interface,
        number: number()?,
        start: number()?,
        saved: number()?,
        lasted: number()?,
        left: number()?,
        unseen: number()?,
        packets: number()?,
        bytes: number()?,
        left_out: number()?,
    };
    let body = number()?;
    Some(Head {
        window,
        settings,
        length,
        body,
        checksum: <[u8; CHECKSUM]>::try_from(&**head).ok()?,
    })
}

/// The SHA-256.
pub fn checksum(bytes: &[u8]) -> [u8; CHECKSUM] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> SavedWindow {
        SavedWindow {
            interface: "eth0".into(),
            number: 3,
            start: 100,
            saved: 150,
            lasted: 40,
            left: 20,
            unseen: 5,
            packets: 7,
            bytes: 700,
            left_out: 0,
        }
    }

    #[test]
    fn a_head_is_read_as_it_was_written_and_never_otherwise() {
        let (settings, body) = (Settings("a=1\n".into()), b"sketches");
        let written = window().head(&settings, body);
        let file = [&written[..], body].concat();
        let head = Head::read(&file).unwrap();
        assert_eq!(head.window, window());
        assert_eq!(head.settings, "a=1\n");
        assert_eq!((head.length, head.body), (written.len(), 8));
        assert!(head.owns(body) && !head.owns(b"sketcheS") && !head.owns(b""));
        for cut in 0..written.len() {
            assert!(matches!(Head::read(&file[..cut]), Err(Refusal::Bad(_))));
        }
        for bit in 0..8 * written.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::read(&damaged).is_err(), "bit {bit}");
        }
        let mut newer = file;
        newer[6..8].copy_from_slice(b"02");
        let refusal = Head::read(&newer);
        assert!(matches!(refusal, Err(Refusal::Foreign(why)) if why.contains("another version")));
    }

    #[test]
    fn a_window_goes_on_until_its_end() {
        let window = window();
        assert_eq!(window.age(150), Ok(0));
        assert_eq!(window.age(169), Ok(19));
        assert_eq!(window.age(170), Err(Refusal::Ended));
        let future = window.age(149);
        assert!(matches!(future, Err(Refusal::Foreign(why)) if why.contains("in the future")));
    }
}
