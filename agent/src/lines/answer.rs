//! The lines of an answer to a question about a pair, networks or an address.

use std::net::IpAddr;

use serde::Serialize;

use super::line::Line;
use super::window::Of;
use crate::traffic::endpoint::Endpoint;
use crate::traffic::names::PairNames;
use crate::traffic::service::Service;
use crate::traffic::service::filter::ServiceFilter;
use crate::window::answer::NodeEstimate;
use crate::window::estimate::Estimate;
use crate::window::info::PairInfo;
use crate::window::list::Row;

/// The traffic asked for: its two ends, what is known of them, and the services.
pub struct Ends<'a> {
    pub src: &'a Endpoint,
    pub dst: &'a Endpoint,
    pub names: &'a PairNames,
    pub info: &'a PairInfo,
    /// The services that the question is about, in the form of the parameter. `None` for all.
    pub service: Option<&'a str>,
}

impl Of<'_> {
    /// A line for the traffic from `src` to `dst`, one for the opposite direction if `back` is
    /// given, and one for each known service of the former.
    pub fn flow(
        &self,
        ends: &Ends<'_>,
        there: &Estimate,
        back: Option<&Estimate>,
        services: &[Row<Service>],
    ) -> Vec<Line> {
        let reversed = (ends.names.reversed(), ends.info.reversed());
        let back = back.map(|back| {
            let ends = Ends {
                src: ends.dst,
                dst: ends.src,
                names: &reversed.0,
                info: &reversed.1,
                service: ends.service,
            };
            ends.line(self.line("flow"), back)
        });
        let services = services
            .iter()
            .map(|row| ends.line(self.line("flow_services"), row));
        let there = ends.line(self.line("flow"), there);
        [there].into_iter().chain(back).chain(services).collect()
    }

    /// The lines of an address: sent, received, fan-out and fan-in, and the known services of what
    /// it sent and received. `info` is its AS, country and host name.
    pub fn node(
        &self,
        ip: IpAddr,
        name: Option<&str>,
        info: &impl Serialize,
        node: &NodeEstimate,
    ) -> Vec<Line> {
        let line = |list| {
            let mut line = self.line(list);
            line.set("ip", ip.to_string());
            if let Some(name) = name {
                line.set("name", name);
            }
            line.add(info);
            line
        };
        let mut lines = vec![
            line("sent").with(&node.sent),
            line("received").with(&node.received),
            line("fan_out").with(&node.fan_out),
            line("fan_in").with(&node.fan_in),
        ];
        if let Some(services) = &node.services {
            let sent = services.sent.iter();
            lines.extend(sent.map(|row| line("sent_services").with(row)));
            let received = services.received.iter();
            lines.extend(received.map(|row| line("received_services").with(row)));
        }
        lines
    }
}

impl Ends<'_> {
    /// Adds the ends, what is known of them, the services and `numbers` to a line.
    fn line(&self, mut line: Line, numbers: &impl Serialize) -> Line {
        line.set("src", self.src.to_string());
        line.set("dst", self.dst.to_string());
        line.add(self.names);
        line.add(self.info);
        if let Some(service) = self.service {
            line.set_service(service);
        }
        line.with(numbers)
    }
}

impl Line {
    /// The line with the columns of the fields of `numbers`.
    fn with(mut self, numbers: &impl Serialize) -> Self {
        self.add(numbers);
        self
    }

    /// Sets the services that a question is about, and their protocol and port if it names one.
    pub fn set_service(&mut self, service: &str) {
        self.set("service", service);
        if let Ok(filter) = service.parse::<ServiceFilter>() {
            if let Some(protocol) = filter.protocol() {
                self.set("protocol", protocol);
            }
            if let Some(port) = filter.only_port() {
                self.set("port", port);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::window::state::WindowState;

    fn numbers(packets: u64) -> Value {
        json!({
            "packets": packets, "low": packets, "high": packets, "at_least": packets,
            "at_most": packets, "bytes": 7, "bytes_low": 7, "bytes_high": 7,
            "bytes_at_least": 7, "bytes_at_most": 7,
        })
    }

    fn services() -> Value {
        let mut service = numbers(3);
        service["protocol"] = json!("udp");
        service["port"] = json!(53);
        json!([service])
    }

    /// The values of these columns.
    fn columns(line: &Line, names: &[&str]) -> Vec<Value> {
        let value = |name: &&str| line.get(name).cloned().unwrap_or_default();
        names.iter().map(value).collect()
    }

    fn flow(service: Option<&str>, services: Value) -> Vec<Line> {
        let state = WindowState::default();
        let of = Of {
            host: None,
            interface: "eth0",
            complete: true,
            time: &state.time,
        };
        let [src, dst] = ["10.0.0.1", "AS64496"].map(|end| end.parse().unwrap());
        let names = PairNames {
            src_name: Some("office".into()),
            dst_name: None,
        };
        let info = json!({ "src_country": "NL", "src_host": "a.example", "dst_asn": 64496 });
        let ends = Ends {
            src: &src,
            dst: &dst,
            names: &names,
            info: &serde_json::from_value(info).unwrap(),
            service,
        };
        let [there, back] = [5, 4].map(|n| serde_json::from_value(numbers(n)).unwrap());
        let services: Vec<Row<Service>> = serde_json::from_value(services).unwrap();
        of.flow(&ends, &there, Some(&back), &services)
    }

    #[test]
    fn lines_of_a_question_about_a_service_say_which() {
        let null = Value::Null;
        for (service, protocol, port) in [
            ("443", null.clone(), json!(443)),
            ("https", null.clone(), json!(443)),
            ("udp/443", json!("udp"), json!(443)),
            ("tcp", json!("tcp"), null.clone()),
            ("tcp/none", json!("tcp"), null.clone()),
            ("icmp", json!("icmp"), null.clone()),
            // Two ports.
            ("udp/dhcp", json!("udp"), null.clone()),
        ] {
            let lines = flow(Some(service), json!([]));
            assert_eq!(lines.len(), 2);
            for line in &lines {
                let found = columns(line, &["list", "service", "protocol", "port"]);
                let expected = [
                    json!("flow"),
                    json!(service),
                    protocol.clone(),
                    port.clone(),
                ];
                assert_eq!(found, expected, "{service}");
            }
        }
        let all = &flow(None, json!([]))[0];
        let found = columns(all, &["service", "protocol", "port"]);
        assert_eq!(found, [null.clone(), null.clone(), null]);
    }

    #[test]
    fn lines_of_a_flow_have_its_services_and_what_is_known_of_its_ends() {
        let lines = flow(None, services());
        let names = [
            "list",
            "src",
            "src_name",
            "src_country",
            "src_host",
            "src_asn",
            "dst",
            "dst_name",
            "dst_country",
            "dst_host",
            "dst_asn",
            "protocol",
            "port",
            "packets",
        ];
        let found: Vec<Value> = lines
            .iter()
            .map(|line| json!(columns(line, &names)))
            .collect();
        let (end, asn, none) = ("10.0.0.1", "AS64496", Value::Null);
        let expected = [
            json!([
                "flow",
                end,
                "office",
                "NL",
                "a.example",
                none,
                asn,
                none,
                none,
                none,
                64496,
                none,
                none,
                5
            ]),
            json!([
                "flow",
                asn,
                none,
                none,
                none,
                64496,
                end,
                "office",
                "NL",
                "a.example",
                none,
                none,
                none,
                4
            ]),
            json!([
                "flow_services",
                end,
                "office",
                "NL",
                "a.example",
                none,
                asn,
                none,
                none,
                none,
                64496,
                "udp",
                53,
                3
            ]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn lines_of_an_address_have_its_services_and_what_is_known_of_it() {
        let state = WindowState::default();
        let of = Of {
            host: None,
            interface: "eth0",
            complete: true,
            time: &state.time,
        };
        let peers = json!({ "peers": 2, "low": 2, "high": 2 });
        let node = json!({
            "sent": numbers(5), "received": numbers(4), "fan_out": peers, "fan_in": peers,
            "services": { "sent": services(), "received": services() },
        });
        let node: NodeEstimate = serde_json::from_value(node).unwrap();
        let info =
            json!({ "asn": 64496, "as_name": "Example", "country": "NL", "host": "a.example" });
        let lines = of.node("10.0.0.1".parse().unwrap(), Some("office"), &info, &node);
        let lists: Vec<_> = lines.iter().map(|line| columns(line, &["list"])).collect();
        let lists = json!(lists.concat());
        let expected = [
            "sent",
            "received",
            "fan_out",
            "fan_in",
            "sent_services",
            "received_services",
        ];
        assert_eq!(lists, json!(expected));
        for line in &lines {
            let names = ["ip", "name", "asn", "as_name", "country", "ip_host", "host"];
            let expected = json!([
                "10.0.0.1",
                "office",
                64496,
                "Example",
                "NL",
                "a.example",
                null
            ]);
            assert_eq!(json!(columns(line, &names)), expected);
        }
        let names = ["protocol", "port", "packets"];
        assert_eq!(
            columns(&lines[5], &names),
            [json!("udp"), json!(53), json!(3)]
        );
    }
}
