//! The schema of exported lines. Columns are named like the fields in the JSON of the API; the
//! names of nested fields are joined with `_`.

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A whole number, not negative.
    Integer,
    /// A number of seconds.
    Seconds,
    /// `true` or `false`.
    Flag,
}

impl Kind {
    /// The name of the type in the reference.
    #[cfg(test)]
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer => "integer",
            Self::Seconds => "seconds",
            Self::Flag => "true or false",
        }
    }
}

/// Every column, in the order of CSV. A new version of the agent may add columns at the end of a
/// group; the meaning of a column never changes.
pub static COLUMNS: [(&str, Kind); 82] = [
    // The list and the window of the line.
    ("list", Kind::Text),
    ("host", Kind::Text),
    ("interface", Kind::Text),
    ("start", Kind::Seconds),
    ("end", Kind::Seconds),
    ("seconds", Kind::Seconds),
    ("complete", Kind::Flag),
    // The rank of the row, and upper bounds for rows that are not listed.
    ("rank", Kind::Integer),
    ("rank_bytes", Kind::Integer),
    ("others_at_most", Kind::Integer),
    ("others_at_most_bytes", Kind::Integer),
    ("incomplete", Kind::Flag),
    // The key of the row.
    ("src", Kind::Text),
    ("src_name", Kind::Text),
    ("dst", Kind::Text),
    ("dst_name", Kind::Text),
    ("a", Kind::Text),
    ("a_name", Kind::Text),
    ("b", Kind::Text),
    ("b_name", Kind::Text),
    ("ip", Kind::Text),
    ("name", Kind::Text),
    // Information that is looked up about addresses, services, and kinds of notable addresses.
    ("src_asn", Kind::Integer),
    ("dst_asn", Kind::Integer),
    ("a_asn", Kind::Integer),
    ("b_asn", Kind::Integer),
    ("asn", Kind::Integer),
    ("src_as_name", Kind::Text),
    ("dst_as_name", Kind::Text),
    ("a_as_name", Kind::Text),
    ("b_as_name", Kind::Text),
    ("as_name", Kind::Text),
    ("src_country", Kind::Text),
    ("dst_country", Kind::Text),
    ("a_country", Kind::Text),
    ("b_country", Kind::Text),
    ("country", Kind::Text),
    ("src_host", Kind::Text),
    ("dst_host", Kind::Text),
    ("a_host", Kind::Text),
    ("b_host", Kind::Text),
    ("ip_host", Kind::Text),
    ("protocol", Kind::Text),
    ("port", Kind::Integer),
    ("service_protocol", Kind::Text),
    ("service_port", Kind::Integer),
    ("kind", Kind::Text),
    // The services that a question is about.
    ("service", Kind::Text),
    // Numbers.
    ("packets", Kind::Integer),
    ("low", Kind::Integer),
    ("high", Kind::Integer),
    ("at_least", Kind::Integer),
    ("at_most", Kind::Integer),
    ("bytes", Kind::Integer),
    ("bytes_low", Kind::Integer),
    ("bytes_high", Kind::Integer),
    ("bytes_at_least", Kind::Integer),
    ("bytes_at_most", Kind::Integer),
    ("peers", Kind::Integer),
    ("exact", Kind::Flag),
    ("distinct_pairs", Kind::Integer),
    ("unseen_seconds", Kind::Seconds),
    // Both directions of a conversation.
    ("a_to_b_packets", Kind::Integer),
    ("a_to_b_low", Kind::Integer),
    ("a_to_b_high", Kind::Integer),
    ("a_to_b_at_least", Kind::Integer),
    ("a_to_b_at_most", Kind::Integer),
    ("a_to_b_bytes", Kind::Integer),
    ("a_to_b_bytes_low", Kind::Integer),
    ("a_to_b_bytes_high", Kind::Integer),
    ("a_to_b_bytes_at_least", Kind::Integer),
    ("a_to_b_bytes_at_most", Kind::Integer),
    ("b_to_a_packets", Kind::Integer),
    ("b_to_a_low", Kind::Integer),
    ("b_to_a_high", Kind::Integer),
    ("b_to_a_at_least", Kind::Integer),
    ("b_to_a_at_most", Kind::Integer),
    ("b_to_a_bytes", Kind::Integer),
    ("b_to_a_bytes_low", Kind::Integer),
    ("b_to_a_bytes_high", Kind::Integer),
    ("b_to_a_bytes_at_least", Kind::Integer),
    ("b_to_a_bytes_at_most", Kind::Integer),
];

/// The index of a column.
pub fn place(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|(column, _)| *column == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::window::lists::LISTS;

    #[test]
    fn no_column_is_declared_twice() {
        let names: HashSet<_> = COLUMNS.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), COLUMNS.len());
    }

    #[test]
    fn the_reference_names_every_list() {
        let reference = include_str!("../../../docs/reference.md");
        let row = |line: &&str| line.starts_with("| `list` |");
        let row = reference.lines().find(row).unwrap();
        let of_answers = [
            "flow",
            "flow_services",
            "sent",
            "received",
            "sent_services",
            "received_services",
            "service",
            "pairs_of_service",
        ];
        let lists = LISTS.iter().map(|list| list.name);
        for name in lists.chain(of_answers).chain(["window", "notable"]) {
            assert!(row.contains(&format!("`{name}`")), "{name}");
        }
    }

    /// The table of the reference has every column with its type, in this order.
    #[test]
    fn the_reference_has_every_column() {
        let reference = include_str!("../../../docs/reference.md");
        let (_, section) = reference.split_once("\n### Columns\n").unwrap();
        let (section, _) = section.split_once("\n#").unwrap();
        let rows = section.lines().filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split(" | ");
            let names = cells.next()?.trim_end_matches('`').split("`, `");
            let kind = cells.next()?;
            Some(names.map(move |name| (name.to_owned(), kind.to_owned())))
        });
        let described: Vec<_> = rows.flatten().collect();
        let declared: Vec<_> = COLUMNS
            .iter()
            .map(|(name, kind)| ((*name).to_owned(), kind.name().to_owned()))
            .collect();
        assert_eq!(described, declared);
    }
}
