//! The exported lists of a window, in which listed keys are preferred to new ones of similar size,
//! and the watch list.

use std::cmp::Reverse;

use crate::traffic::question::By;
use crate::window::Window;
use crate::window::keys::PairKey;
use crate::window::list::{Key, List, Row, Value};
use crate::window::lists::{BothOrders, Lists};
use crate::window::view::View;

/// A listed key stays until another one is heavier by this many percent, so that two keys of
/// similar size do not alternate.
const KEEP_PERCENT: u128 = 10;

#[derive(Default)]
pub struct StableLists {
    pub lists: BothOrders,
    /// Estimates for the watch list.
    pub watched: Vec<Row<PairKey>>,
}

impl StableLists {
    /// The lists of the first window.
    pub fn of(window: &Window, view: &View) -> Self {
        Self::after(&Self::default(), window, view)
    }

    /// The lists of a window, given those of the previous one.
    pub fn after(before: &Self, window: &Window, view: &View) -> Self {
        // Twice as many rows, to include keys that were listed before.
        let lists = window.lists(2 * view.top, view.anonymiser());
        let BothOrders {
            by_packets,
            by_bytes,
        } = lists;
        Self {
            lists: BothOrders {
                by_packets: follow(&before.lists.by_packets, by_packets, view.top),
                by_bytes: follow(&before.lists.by_bytes, by_bytes, view.top),
            },
            watched: window.watched(&view.watch, view.anonymiser()),
        }
    }
}

/// The `top` heaviest keys of `now`, with an advantage for keys in `before`.
fn follow(before: &Lists, mut now: Lists, top: usize) -> Lists {
    let by = now.by;
    keep(&before.pairs, &mut now.pairs, top, by);
    keep(&before.sources, &mut now.sources, top, by);
    keep(&before.destinations, &mut now.destinations, top, by);
    keep(&before.services, &mut now.services, top, by);
    if let Some(asns) = &mut now.asns {
        let none = List::default();
        keep(before.asns.as_ref().unwrap_or(&none), asns, top, by);
    }
    keep(&before.fan_out, &mut now.fan_out, top, by);
    keep(&before.fan_in, &mut now.fan_in, top, by);
    now.notable.truncate(2 * top);
    now
}

fn keep<K: Key, V: Value>(before: &List<K, V>, now: &mut List<K, V>, top: usize, by: By) {
    let rank = |row: &Row<K, V>| {
        let stays = before.rows.iter().any(|other| other.key.is_same(&row.key));
        let percent = 100 + if stays { KEEP_PERCENT } else { 0 };
        Reverse(u128::from(row.value.size(by)) * percent)
    };
    now.rows.sort_by_cached_key(rank);
    now.truncate(top, by);
    now.rows.sort_by_key(|row| Reverse(row.value.size(by)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::protocol::Protocol;
    use crate::traffic::service::Service;
    use crate::window::estimate::PeerEstimate;

    fn list(sizes: &[(u16, u64)]) -> List<Service, PeerEstimate> {
        let row = |&(port, peers): &(u16, u64)| {
            let key = Service::between(Protocol::Tcp, port, port);
            let value = PeerEstimate {
                peers,
                low: peers,
                high: peers,
                exact: true,
            };
            Row::new(key, value)
        };
        List {
            rows: sizes.iter().map(row).collect(),
            others_at_most: Some(5),
            incomplete: false,
        }
    }

    fn ports(list: &List<Service, PeerEstimate>) -> Vec<Option<u16>> {
        list.rows.iter().map(|row| row.key.port()).collect()
    }

    #[test]
    fn a_listed_key_stays_until_another_is_heavier_by_10_percent() {
        let follow = |before: &List<Service, PeerEstimate>, sizes: &[(u16, u64)]| {
            let mut now = list(sizes);
            keep(before, &mut now, 2, By::Packets);
            now
        };
        let first = follow(&List::default(), &[(1, 1000), (2, 900), (3, 890)]);
        assert_eq!(
            (ports(&first), first.others_at_most),
            (vec![Some(1), Some(2)], Some(890))
        );
        let close = follow(&first, &[(1, 1000), (3, 950), (2, 900)]);
        assert_eq!(
            ports(&close),
            [Some(1), Some(2)],
            "3 is ahead by less than 10 %"
        );
        assert_eq!(close.others_at_most, Some(950));
        let clear = follow(&close, &[(3, 2000), (1, 1000), (2, 900)]);
        assert_eq!(ports(&clear), [Some(3), Some(1)]);
    }
}
