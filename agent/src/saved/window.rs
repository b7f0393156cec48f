//! The format of a saved window: eight bytes of kind and version, a head, the sketches.
//!
//! The head has its own checksum and contains that of the sketches, so that it can be checked
//! without reading the sketches whether a file can be used.

use crane_model::format::other_version;
use sha2::{Digest, Sha256};

use super::settings::Settings;
use crate::sketches::parts::{put, put_part, take, take_part};

const MAGIC: &[u8; 8] = b"CRANEw02";
/// Kind, version and length of the head.
const FIXED: usize = 8 + 8;
/// Maximum size of the head: a name, settings with a filter, and some numbers.
pub const MOST_HEAD: usize = 64 << 10;
const CHECKSUM: usize = 32;
/// Larger numbers of packets or nanoseconds are errors.
const MOST: u64 = 1 << 62;

/// A saved window without its sketches. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedWindow {
    pub interface: String,
    /// Number of the window, which positions in its sketches depend on.
    pub number: u64,
    /// Start, since 1970.
    pub start: u64,
    /// Time at which it was saved, since 1970.
    pub saved: u64,
    /// How long the window had lasted when it was saved.
    pub lasted: u64,
    /// The remaining time of the window when it was saved.
    pub left: u64,
    /// Part of the window during which no agent was running.
    pub unseen: u64,
    /// Packets stored.
    pub packets: u64,
    pub bytes: u64,
    /// Packets that were not sampled.
    pub unsampled: u64,
}

/// Why a file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// The window has ended.
    Ended,
    /// It was written by another agent, by another version or with another configuration.
    Foreign(String),
    /// It is damaged.
    Bad(&'static str),
}

/// A head whose checksum is right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub window: SavedWindow,
    pub settings: String,
    /// Position of the sketches.
    pub length: usize,
    /// Length of the sketches.
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
            self.unsampled,
        ]
    }

    /// The bytes of a file before the sketches in `body`.
    pub fn head(&self, settings: &Settings, body: &[u8]) -> Vec<u8> {
        let mut head = Vec::new();
        put_part(&mut head, self.interface.as_bytes());
        put_part(&mut head, settings.0.as_bytes());
        for number in self.numbers() {
            put(&mut head, number);
        }
        put(&mut head, body.len() as u64);
        head.extend(checksum(body));
        let mut file = MAGIC.to_vec();
        put_part(&mut file, &head);
        file.extend(checksum(&head));
        file
    }

    /// Nanoseconds from saving until `now`, by the wall clock. An error if the window has ended.
    pub fn age(&self, now: u64) -> Result<u64, Unusable> {
        let age = now.checked_sub(self.saved).ok_or_else(|| {
            Unusable::Foreign("it was saved in the future: the clock was set".into())
        })?;
        match age < self.left {
            true => Ok(age),
            false => Err(Unusable::Ended),
        }
    }
}

impl Head {
    /// Reads the head from the first bytes of a file.
    pub fn read(file: &[u8]) -> Result<Self, Unusable> {
        const TRUNCATED: Unusable = Unusable::Bad("it is truncated");
        let (start, mut rest) = file.split_at_checked(MAGIC.len()).ok_or(TRUNCATED)?;
        if start != MAGIC {
            return Err(match other_version(start, MAGIC) {
                Some(why) => Unusable::Foreign(why),
                None => Unusable::Bad("it does not begin like a window"),
            });
        }
        let head = take_part(&mut rest).filter(|head| head.len() <= MOST_HEAD);
        let head = head.ok_or(TRUNCATED)?;
        let sum = rest.split_at_checked(CHECKSUM).ok_or(TRUNCATED)?.0;
        if sum != checksum(head) {
            return Err(Unusable::Bad("its checksum is wrong"));
        }
        let length = FIXED + head.len() + CHECKSUM;
        parse(head, length).ok_or(Unusable::Bad("its head is invalid"))
    }

    /// Whether the sketches have the length and checksum in the head.
    pub fn matches(&self, body: &[u8]) -> bool {
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
        unsampled: number()?,
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
            unsampled: 0,
        }
    }

    #[test]
    fn a_head_is_read_as_written_and_damage_is_detected() {
        let (settings, body) = (Settings("a=1\n".into()), b"sketches");
        let written = window().head(&settings, body);
        let file = [&written[..], body].concat();
        let head = Head::read(&file).unwrap();
        assert_eq!(head.window, window());
        assert_eq!(head.settings, "a=1\n");
        assert_eq!((head.length, head.body), (written.len(), 8));
        assert!(head.matches(body) && !head.matches(b"sketcheS") && !head.matches(b""));
        for cut in 0..written.len() {
            assert!(matches!(Head::read(&file[..cut]), Err(Unusable::Bad(_))));
        }
        for bit in 0..8 * written.len() {
            let mut damaged = file.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Head::read(&damaged).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_window_can_be_resumed_until_its_end() {
        let window = window();
        assert_eq!(window.age(150), Ok(0));
        assert_eq!(window.age(169), Ok(19));
        assert_eq!(window.age(170), Err(Unusable::Ended));
        let future = window.age(149);
        assert!(matches!(future, Err(Unusable::Foreign(why)) if why.contains("in the future")));
    }
}
