//! The lines of a window: one for the window, one for each row of its lists, and one for each
//! notable address. A row that is listed by packets and by bytes has only one line, so that sums
//! over lines count it once.

use std::collections::HashMap;
use std::convert::Infallible;

use super::line::Line;
use crate::traffic::question::By;
use crate::window::list::{Key, List, Value};
use crate::window::lists::{ListName, Lists, Notable, Visitor};
use crate::window::services::ServiceEstimate;
use crate::window::state::{WindowState, WindowTime};

/// The window that lines belong to: the columns that all of them have.
pub struct Of<'a> {
    /// Name of the machine. `None` if it is not known.
    pub host: Option<&'a str>,
    /// Name of the interface or file.
    pub interface: &'a str,
    /// Whether the window has ended.
    pub complete: bool,
    pub time: &'a WindowTime,
}

impl Of<'_> {
    /// A line of a list of the window.
    pub fn line(&self, list: &str) -> Line {
        let mut line = Line::new(list);
        self.describe(&mut line);
        line
    }

    /// Sets the columns that identify the window.
    fn describe(&self, line: &mut Line) {
        if let Some(host) = self.host {
            line.set("host", host);
        }
        line.set("interface", self.interface);
        line.add(self.time);
        line.set("complete", self.complete);
    }

    /// All lines of the window: its totals, and its lists in one order or in both.
    pub fn lines(&self, state: &WindowState, orders: &[&Lists]) -> Vec<Line> {
        let mut window = Line::new("window");
        window.add(state);
        // Other JSON omits it if it is 0.
        window.set("unseen_seconds", state.unseen_seconds);
        self.describe(&mut window);
        // All columns are present, so that programs that infer the schema from lines find them.
        window.fill();
        let mut rows = Rows {
            of: self,
            by: By::Packets,
            lists: Vec::new(),
        };
        for lists in orders {
            rows.by = lists.by;
            let Ok(()) = lists.visit(&mut rows);
        }
        let listed = rows.lists.into_iter().flat_map(ListLines::finish);
        let notable = orders.first().map_or(&[][..], |lists| &lists.notable);
        let notable = notable.iter().map(|one| self.notable(one));
        let window = std::iter::once(window);
        window.chain(listed).chain(notable).collect()
    }

    /// A line for the services asked for, and one for each of the heaviest pairs of them. All of
    /// them say which services these are.
    pub fn pairs_of_service(&self, asked: &str, service: &ServiceEstimate, by: By) -> Vec<Line> {
        let mut rows = Rows {
            of: self,
            by,
            lists: Vec::new(),
        };
        let pairs = List {
            rows: service.pairs.clone(),
            others_at_most: service.others_at_most,
            incomplete: service.incomplete,
        };
        rows.add("pairs_of_service", &pairs);
        let listed = rows.lists.into_iter().flat_map(ListLines::finish);
        let mut total = self.line("service");
        total.add(&service.estimate);
        let mut lines: Vec<Line> = std::iter::once(total).chain(listed).collect();
        lines.iter_mut().for_each(|line| line.set_service(asked));
        lines
    }

    fn notable(&self, one: &Notable) -> Line {
        let mut line = self.line("notable");
        line.add(one);
        line
    }
}

/// The lines of all lists.
struct Rows<'a> {
    of: &'a Of<'a>,
    /// The order of the lists that are visited.
    by: By,
    lists: Vec<ListLines>,
}

/// The lines of one list.
struct ListLines {
    name: &'static str,
    lines: Vec<Line>,
    /// Index of the line of a key, by the labels of the key.
    places: HashMap<String, usize>,
    /// Columns with the same value in all lines.
    shared: Vec<(&'static str, Option<u64>)>,
    incomplete: bool,
}

impl ListLines {
    fn finish(mut self) -> Vec<Line> {
        for line in &mut self.lines {
            for (column, value) in &self.shared {
                line.set(column, *value);
            }
            line.set("incomplete", self.incomplete);
        }
        self.lines
    }
}

impl Visitor for Rows<'_> {
    type Error = Infallible;

    fn visit<K: Key, V: Value>(
        &mut self,
        name: &'static ListName,
        list: &List<K, V>,
    ) -> Result<(), Infallible> {
        self.add(name.name, list);
        Ok(())
    }
}

impl Rows<'_> {
    /// Adds the rows of the list with this name.
    fn add<K: Key, V: Value>(&mut self, name: &'static str, list: &List<K, V>) {
        let (rank, others) = match self.by {
            By::Bytes if V::HAS_BYTES => ("rank_bytes", "others_at_most_bytes"),
            _ => ("rank", "others_at_most"),
        };
        let known = self.lists.iter().position(|lines| lines.name == name);
        let at = known.unwrap_or(self.lists.len());
        if known.is_none() {
            self.lists.push(ListLines {
                name,
                lines: Vec::new(),
                places: HashMap::new(),
                shared: Vec::new(),
                incomplete: false,
            });
        }
        let lines = &mut self.lists[at];
        lines.incomplete |= list.incomplete;
        lines.shared.push((others, list.others_at_most));
        for (place, row) in (1..).zip(&list.rows) {
            let next = lines.lines.len();
            let at = *lines.places.entry(row.key.labels()).or_insert(next);
            if at == next {
                let mut line = self.of.line(name);
                line.add(row);
                lines.lines.push(line);
            }
            lines.lines[at].set(rank, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::window::lists::{BothOrders, LISTS};

    fn lists(by: &str, pairs: &[(&str, u64)]) -> Lists {
        let rows = pairs.iter().map(|(src, packets)| {
            json!({
                "src": src, "dst": "10.0.0.9", "packets": packets, "low": 1, "high": 9,
                "at_least": 1, "at_most": null, "bytes": 7, "bytes_low": 7, "bytes_high": 7,
                "bytes_at_least": 7, "bytes_at_most": 7,
                "service": { "protocol": "tcp", "port": 443 },
            })
        });
        let fan = json!([{ "ip": "10.0.0.1", "peers": 4, "low": 3, "high": 5 }]);
        let lists = json!({
            "pairs": rows.collect::<Vec<_>>(), by: 3, "fan_out": fan,
            "notable": [{ "kind": "scan", "ip": "10.0.0.1", "peers": 4, "low": 3, "high": 5 }],
            "incomplete": ["pairs"],
        });
        serde_json::from_value(lists).unwrap()
    }

    #[test]
    fn pairs_of_a_service_have_a_list_of_their_own_and_say_which_service() {
        let rows = lists("complete_above", &[("10.0.0.1", 5), ("10.0.0.2", 4)])
            .pairs
            .rows;
        let service = ServiceEstimate {
            estimate: rows[0].value,
            pairs: rows,
            others_at_most: Some(3),
            incomplete: false,
        };
        let state = WindowState::default();
        let of = Of {
            host: None,
            interface: "eth0",
            complete: true,
            time: &state.time,
        };
        let lines = of.pairs_of_service("udp/443", &service, By::Bytes);
        let names = ["list", "src", "service", "protocol", "port", "rank_bytes"];
        let column = |line: &Line, name: &str| line.get(name).cloned().unwrap_or_default();
        let found: Vec<_> = lines
            .iter()
            .map(|line| json!(names.map(|name| column(line, name))))
            .collect();
        let list = "pairs_of_service";
        assert_eq!(
            found,
            [
                json!(["service", null, "udp/443", "udp", 443, null]),
                json!([list, "10.0.0.1", "udp/443", "udp", 443, 1]),
                json!([list, "10.0.0.2", "udp/443", "udp", 443, 2]),
            ]
        );
    }

    #[test]
    fn a_row_of_both_orders_is_one_line_with_both_ranks() {
        let both = BothOrders {
            by_packets: lists("complete_above", &[("10.0.0.1", 5), ("10.0.0.2", 4)]),
            by_bytes: lists("complete_above_bytes", &[("10.0.0.3", 1), ("10.0.0.1", 5)]),
        };
        let state = WindowState::default();
        let of = Of {
            host: Some("here"),
            interface: "eth0",
            complete: true,
            time: &state.time,
        };
        let lines = of.lines(&state, &[&both.by_packets, &both.by_bytes]);
        let column = |line: &Line, name: &str| line.get(name).cloned().unwrap_or_default();
        let found: Vec<_> = lines
            .iter()
            .map(|line| ["list", "src", "rank", "rank_bytes"].map(|name| column(line, name)))
            .collect();
        let null = serde_json::Value::Null;
        assert_eq!(
            found,
            [
                [json!("window"), null.clone(), null.clone(), null.clone()],
                [json!("pairs"), json!("10.0.0.1"), json!(1), json!(2)],
                [json!("pairs"), json!("10.0.0.2"), json!(2), null.clone()],
                [json!("pairs"), json!("10.0.0.3"), null.clone(), json!(1)],
                [json!("fan_out"), null.clone(), json!(1), null.clone()],
                [json!("notable"), null.clone(), null.clone(), null.clone()],
            ]
        );
        let pair = &lines[3];
        for name in ["others_at_most", "others_at_most_bytes"] {
            assert_eq!(column(pair, name), 3, "also in a row of one order only");
        }
        assert_eq!(column(pair, "incomplete"), true);
        assert_eq!(column(pair, "service_port"), 443);
        assert_eq!(column(&lines[5], "kind"), "scan");
        assert_eq!(LISTS[0].name, "pairs");
    }
}
