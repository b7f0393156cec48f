//! Conversations: what two addresses send each other, both ways together.

use std::cmp::Reverse;
use std::collections::HashMap;

use crane_model::{Amount, Flow};

use super::answer::By;
use super::sketches::Sketches;
use crate::edge::Pair;

/// Two addresses and what they send each other.
#[derive(Debug, Clone, Copy)]
pub struct Conversation {
    /// From the lower address to the higher.
    pub there: Flow<Pair>,
    /// The other way; none where an address talks to itself.
    pub back: Option<Flow<Pair>>,
}

impl Conversation {
    /// Both directions.
    pub fn flows(&self) -> impl Iterator<Item = &Flow<Pair>> {
        [&self.there].into_iter().chain(&self.back)
    }

    /// Packets or bytes of both directions, as `of` sees them.
    fn sum(&self, by: By, of: impl Fn(&Amount) -> u64) -> u64 {
        let sizes = self.flows().map(|flow| match by {
            By::Packets => of(&flow.packets),
            By::Bytes => of(&flow.bytes),
        });
        sizes.fold(0, u64::saturating_add)
    }

    fn size(&self, by: By) -> u64 {
        self.sum(by, |amount| amount.estimate)
    }
}

/// The `top` heaviest of a window. A direction that has no name in the sketch is
/// asked for; conversations that certainly are no heavier than one without any name
/// could be are left out.
pub fn heaviest(sketches: &Sketches, top: usize, by: By) -> crane_model::Result<Vec<Conversation>> {
    let mut named: HashMap<Pair, [Option<Flow<Pair>>; 2]> = HashMap::new();
    for flow in sketches.named_pairs() {
        let back = flow.key.reversed();
        let (key, at) = match flow.key <= back {
            true => (flow.key, 0),
            false => (back, 1),
        };
        named.entry(key).or_default()[at] = Some(flow);
    }
    let least = sketches.least_listed(by).saturating_mul(2);
    let sampling = sketches.sampling();
    let mut found = Vec::with_capacity(named.len());
    for (pair, [there, back]) in named {
        let known = |flow: Option<_>, pair| flow.map_or_else(|| sketches.pair(pair), Ok);
        let reversed = pair.reversed();
        let conversation = Conversation {
            there: known(there, pair)?,
            back: (reversed != pair)
                .then(|| known(back, reversed))
                .transpose()?,
        };
        if conversation.sum(by, |amount| sampling.most_of(amount)) > least {
            found.push(conversation);
        }
    }
    found.sort_unstable_by_key(|one| (Reverse(one.size(by)), one.there.key));
    found.truncate(top);
    Ok(found)
}
