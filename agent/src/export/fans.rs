//! Who talks with most others in a window.

use std::cmp::Reverse;
use std::net::IpAddr;

use crane_model::fan::Peers;

use super::hitters::KEEP_PERCENT;

/// A node and with how many others it talks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodePeers {
    /// Its address.
    pub ip: IpAddr,
    /// The others, in one direction.
    pub peers: Peers,
}

/// Those with most peers, the largest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FanLists {
    /// Who sends to most others.
    pub out: Vec<NodePeers>,
    /// Who receives from most others.
    pub into: Vec<NodePeers>,
}

impl FanLists {
    /// The `top` largest of `now`, where those who are in these lists have an
    /// advantage.
    pub fn follow(&self, now: &Self, top: usize) -> Self {
        Self {
            out: follow(&self.out, &now.out, top),
            into: follow(&self.into, &now.into, top),
        }
    }
}

fn follow(before: &[NodePeers], now: &[NodePeers], top: usize) -> Vec<NodePeers> {
    let rank = |fan: &NodePeers| {
        let stays = before.iter().any(|other| other.ip == fan.ip);
        let percent = 100 + if stays { KEEP_PERCENT } else { 0 };
        (Reverse(u128::from(fan.peers.peers) * percent), fan.ip)
    };
    let mut chosen = now.to_vec();
    chosen.sort_by_cached_key(rank);
    chosen.truncate(top);
    chosen.sort_unstable_by_key(|fan| (Reverse(fan.peers.peers), fan.ip));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn who_is_in_stays_until_clearly_beaten() {
        let fans = |sizes: &[(u32, u64)]| -> Vec<NodePeers> {
            let fan = |&(ip, peers): &(u32, u64)| NodePeers {
                ip: Ipv4Addr::from(ip).into(),
                peers: Peers {
                    peers,
                    low: peers,
                    high: peers,
                },
            };
            sizes.iter().map(fan).collect()
        };
        let first = follow(&[], &fans(&[(1, 1000), (2, 900), (3, 890)]), 2);
        assert_eq!(first, fans(&[(1, 1000), (2, 900)]));
        let close = follow(&first, &fans(&[(1, 1000), (3, 950), (2, 900)]), 2);
        assert_eq!(close, fans(&[(1, 1000), (2, 900)]));
        let clear = follow(&close, &fans(&[(3, 2000), (1, 1000), (2, 900)]), 2);
        assert_eq!(clear, fans(&[(3, 2000), (1, 1000)]));
    }
}
