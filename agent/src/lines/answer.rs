//! The lines of an answer to a question about a pair, networks or an address.

use std::net::IpAddr;

use serde::Serialize;

use super::line::Line;
use super::window::Of;
use crate::traffic::endpoint::Endpoint;
use crate::traffic::names::PairNames;
use crate::window::answer::NodeEstimate;
use crate::window::estimate::Estimate;

/// The two ends of the traffic asked for, and the names of their networks.
pub struct Ends<'a> {
    pub src: &'a Endpoint,
    pub dst: &'a Endpoint,
    pub names: &'a PairNames,
}

impl Of<'_> {
    /// A line for the traffic from `src` to `dst`, and one for the opposite direction if `back` is
    /// given.
    pub fn flow(&self, ends: &Ends<'_>, there: &Estimate, back: Option<&Estimate>) -> Vec<Line> {
        let PairNames { src_name, dst_name } = ends.names;
        let line = |[src, dst]: [&Endpoint; 2], names: [&Option<String>; 2], estimate| {
            let mut line = self.line("flow");
            line.set("src", src.to_string());
            line.set("dst", dst.to_string());
            for (column, name) in ["src_name", "dst_name"].into_iter().zip(names) {
                if let Some(name) = name {
                    line.set(column, name.as_str());
                }
            }
            line.add(estimate);
            line
        };
        let there = line([ends.src, ends.dst], [src_name, dst_name], there);
        let back = back.map(|back| line([ends.dst, ends.src], [dst_name, src_name], back));
        [there].into_iter().chain(back).collect()
    }

    /// The lines of an address: sent, received, fan-out and fan-in.
    pub fn node(&self, ip: IpAddr, name: Option<&str>, node: &NodeEstimate) -> Vec<Line> {
        let about = Address { ip, name };
        vec![
            about.line(self.line("sent"), &node.sent),
            about.line(self.line("received"), &node.received),
            about.line(self.line("fan_out"), &node.fan_out),
            about.line(self.line("fan_in"), &node.fan_in),
        ]
    }
}

/// An address, and the name of its network.
struct Address<'a> {
    ip: IpAddr,
    name: Option<&'a str>,
}

impl Address<'_> {
    /// Adds the address, its name and `numbers` to a line.
    fn line(&self, mut line: Line, numbers: &impl Serialize) -> Line {
        line.set("ip", self.ip.to_string());
        if let Some(name) = self.name {
            line.set("name", name);
        }
        line.add(numbers);
        line
    }
}
