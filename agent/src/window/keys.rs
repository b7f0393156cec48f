//! Keys of rows: pairs, addresses and services in the form in which they are shown.
//!
//! Keys are made of real addresses in one place, [`Shown`], so that no list can show an address
//! that is to be hidden. If addresses are hidden, host names are neither shown nor looked up. A
//! network shown instead of its addresses has the AS and the country of its first address. A
//! pseudonym has neither, because they would reveal the network of the real address.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::info::PairInfo;
use super::list::Key;
use crate::lookup::{AddressInfo, Sources};
use crate::text::plain;
use crate::text::table::Cell;
use crate::traffic::anonymise::Anonymiser;
use crate::traffic::edge::Pair;
use crate::traffic::endpoint::{Between, Endpoint};
use crate::traffic::names::{Names, PairNames, name_of};
use crate::traffic::service::Service;

/// Converts real addresses to what is shown: names, and pseudonyms or networks.
#[derive(Clone)]
pub struct Shown<'a> {
    pub names: Option<&'a Names>,
    pub anonymiser: Option<&'a Anonymiser>,
    /// Databases and host names of addresses.
    pub sources: Arc<Sources>,
}

impl Shown<'_> {
    /// Returns the key that is shown for an address. A network shown instead of its addresses has
    /// the name of its first address.
    pub fn address(&self, real: IpAddr) -> AddressKey {
        let ip = self.anonymiser.map_or(real, |one| one.show(real));
        let named = if self.joins() { ip } else { real };
        AddressKey {
            ip,
            name: name_of(self.names, named),
            info: self.info(real),
        }
    }

    /// AS, country and host name of an address, as far as they may be shown.
    pub fn info(&self, real: IpAddr) -> AddressInfo {
        match self.anonymiser {
            None => self.sources.info(real),
            Some(one @ Anonymiser::Prefix) => self.sources.place(one.show(real)),
            Some(Anonymiser::Keyed(_)) => AddressInfo::default(),
        }
    }

    /// AS, country and host names of the ends of a question, as far as they may be shown. The
    /// question has real addresses.
    pub fn ends(&self, ends: &Between) -> PairInfo {
        let info = |end: &Endpoint| match end {
            Endpoint::Address(real) => self.info(*real),
            Endpoint::Asn(asn) => self.sources.asn(*asn),
            _ => AddressInfo::default(),
        };
        PairInfo::new(info(&ends.src), info(&ends.dst))
    }

    /// Returns a function from a real address to its AS. `None` if no AS is known or may be shown.
    pub fn asns(&self) -> Option<impl Fn(IpAddr) -> Option<u32>> {
        let asns = self.sources.databases().asns.as_ref()?;
        let shown = match self.anonymiser {
            Some(Anonymiser::Keyed(_)) => return None,
            shown => shown,
        };
        Some(move |real| asns.number(shown.map_or(real, |one| one.show(real))))
    }

    pub fn asn(&self, asn: u32) -> AsnKey {
        AsnKey {
            asn,
            as_name: self.sources.asn(asn).as_name,
        }
    }

    /// Returns the key that is shown for a pair with its main service.
    pub fn pair(&self, real: Pair, service: Option<Service>) -> PairKey {
        let (src, dst) = (self.address(real.src()), self.address(real.dst()));
        PairKey {
            src: src.ip,
            dst: dst.ip,
            names: PairNames {
                src_name: src.name,
                dst_name: dst.name,
            },
            info: PairInfo::new(src.info, dst.info),
            service,
        }
    }

    /// Whether several addresses may be shown as one.
    pub fn joins(&self) -> bool {
        matches!(self.anonymiser, Some(Anonymiser::Prefix))
    }
}

/// A source and a destination.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PairKey {
    pub src: IpAddr,
    pub dst: IpAddr,
    #[serde(flatten)]
    pub names: PairNames,
    #[serde(flatten)]
    pub info: PairInfo,
    /// The main service of the pair, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Service>,
}

impl PairKey {
    /// Both addresses as text.
    pub fn ends(&self) -> [String; 2] {
        let (from, to) = (&self.names.src_name, &self.names.dst_name);
        let [src, dst] = self.info.each();
        [
            src.show(self.src, from.as_deref()),
            dst.show(self.dst, to.as_deref()),
        ]
    }
}

impl Key for PairKey {
    const REMARK: Option<&'static str> = Some("service");

    fn cells(&self) -> Vec<Cell> {
        let [src, dst] = self.ends();
        vec![Cell::node(src, self.src), Cell::node(dst, self.dst)]
    }

    fn remark(&self) -> String {
        self.service
            .map_or_else(String::new, |service| service.to_string())
    }

    fn labels(&self) -> String {
        format!(",src=\"{}\",dst=\"{}\"", self.src, self.dst)
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.src, self.dst) == (other.src, other.dst)
    }

    fn join(&mut self, other: &Self) {
        self.service = self.service.filter(|one| Some(*one) == other.service);
    }
}

/// A source or a destination.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AddressKey {
    pub ip: IpAddr,
    /// Name of its network, if networks are configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    pub info: AddressInfo,
}

impl Key for AddressKey {
    fn cells(&self) -> Vec<Cell> {
        let text = self.info.show(self.ip, self.name.as_deref());
        vec![Cell::node(text, self.ip)]
    }

    fn labels(&self) -> String {
        format!(",ip=\"{}\"", self.ip)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.ip == other.ip
    }
}

/// An autonomous system.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AsnKey {
    pub asn: u32,
    /// Name of the AS in the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_name: Option<String>,
}

impl Key for AsnKey {
    fn cells(&self) -> Vec<Cell> {
        let name = self.as_name.as_deref().map(plain::text);
        let name = name.map_or_else(String::new, |name| format!(" {name}"));
        vec![Cell::name(format!("AS{}{name}", self.asn))]
    }

    fn labels(&self) -> String {
        let name = plain::label(self.as_name.as_deref().unwrap_or_default());
        format!(",asn=\"{}\",as_name=\"{name}\"", self.asn)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.asn == other.asn
    }
}

impl Key for Service {
    fn cells(&self) -> Vec<Cell> {
        vec![Cell::name(self.to_string())]
    }

    fn labels(&self) -> String {
        let port = self
            .port()
            .map_or_else(String::new, |port| port.to_string());
        format!(",protocol=\"{}\",port=\"{port}\"", self.protocol())
    }

    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}
