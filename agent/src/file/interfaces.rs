//! The interfaces of a pcapng file with several sections.
//!
//! Every section numbers its interfaces from 0. In concatenated captures the second `eth0`
//! is the same interface as the first: an interface is identified with an earlier one of
//! the same name and link type, unless its own section has already described that one.

use std::collections::HashMap;

use super::CaptureInterface;
use super::damage::Damage;

/// A file with more interfaces is reported as damaged.
const MAX_INTERFACES: usize = 4096;

/// All interfaces of a file without duplicates.
#[derive(Default)]
pub struct Interfaces {
    all: Vec<CaptureInterface>,
    /// Interfaces of the same name and link type.
    alike: HashMap<CaptureInterface, Alike>,
    section: u64,
}

#[derive(Default)]
struct Alike {
    indices: Vec<u32>,
    /// How many of them the current section has described.
    described: usize,
    section: u64,
}

impl Interfaces {
    /// Starts a section, in which earlier interfaces may be described again.
    pub fn start_section(&mut self) {
        self.section += 1;
    }

    /// Adds the next interface of this section. Returns its index among all interfaces.
    pub fn describe(&mut self, interface: CaptureInterface) -> Result<u32, Damage> {
        let alike = self.alike.entry(interface.clone()).or_default();
        if alike.section != self.section {
            (alike.section, alike.described) = (self.section, 0);
        }
        if let Some(index) = alike.indices.get(alike.described) {
            alike.described += 1;
            return Ok(*index);
        }
        if self.all.len() == MAX_INTERFACES {
            let what = format!("more than {MAX_INTERFACES} interfaces");
            return Err(Damage::Corrupt(what));
        }
        let index = self.all.len() as u32;
        alike.indices.push(index);
        alike.described += 1;
        self.all.push(interface);
        Ok(index)
    }

    pub fn all(&self) -> &[CaptureInterface] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::packet::Link;

    fn section(interfaces: &mut Interfaces, names: &[Option<&str>]) -> Vec<u32> {
        interfaces.start_section();
        let describe = |name: &Option<&str>| {
            let interface = CaptureInterface {
                name: name.map(str::to_owned),
                link: Link(1),
            };
            interfaces.describe(interface).unwrap()
        };
        names.iter().map(describe).collect()
    }

    #[test]
    fn concatenated_captures_have_one_entry_for_each_interface() {
        let mut interfaces = Interfaces::default();
        let (eth0, eth1) = (Some("eth0"), Some("eth1"));
        assert_eq!(section(&mut interfaces, &[eth0, eth1, None]), [0, 1, 2]);
        assert_eq!(section(&mut interfaces, &[eth1, None, eth0]), [1, 2, 0]);
        assert_eq!(section(&mut interfaces, &[None, None, eth0]), [2, 3, 0]);
        assert_eq!(section(&mut interfaces, &[None, None, None]), [2, 3, 4]);
        assert_eq!(interfaces.all().len(), 5);
    }

    #[test]
    fn the_number_of_interfaces_is_limited() {
        let mut interfaces = Interfaces::default();
        let nameless = CaptureInterface {
            name: None,
            link: Link(1),
        };
        for _ in 0..MAX_INTERFACES {
            interfaces.describe(nameless.clone()).unwrap();
        }
        assert!(interfaces.describe(nameless).is_err());
        assert_eq!(section(&mut interfaces, &[None]), [0]);
    }
}
