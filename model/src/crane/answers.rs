//! Answers of crown and layers. The crown counts by itself; only who is not
//! there is looked for in the layers.

use super::Layered;
use crate::Result;
use crate::answer::Flow;
use crate::crown::{Count, Crown};
use crate::name::{AnyName, Name, Narrow, Wide};
use crate::witnesses::UncrownedWitnesses;

impl Layered {
    /// What is known of each of these edges.
    pub(super) fn flows<N: Name>(&self, names: &[N]) -> Result<Vec<Flow<N>>> {
        let (crowned, below) = self.look_up(names);
        let estimates = self.layers.estimates(&below, &|| self.uncrowned())?;
        let mut estimates = estimates.into_iter();
        let answers = names.iter().zip(crowned);
        Ok(answers
            .map(|(name, count)| match count {
                Some(count) => Flow::of_crown(*name, &count),
                None => Flow::of_layers(*name, estimates.next().unwrap_or_default()),
            })
            .collect())
    }

    /// The upper bound of each of these edges.
    pub(super) fn bounds<N: Name>(&self, names: &[N]) -> Result<Vec<u64>> {
        let (crowned, below) = self.look_up(names);
        let mut bounds = self.layers.bounds(&below)?.into_iter();
        let answers = crowned.into_iter();
        Ok(answers
            .map(|count| match count {
                Some(count) => count.bound(),
                None => bounds.next().unwrap_or_default(),
            })
            .collect())
    }

    /// What the crown has of each of these edges, and the ids of the others.
    fn look_up<N: Name>(&self, names: &[N]) -> (Vec<Option<Count>>, Vec<u64>) {
        let mut below = Vec::with_capacity(names.len());
        let crowned = names.iter().map(|name| {
            let (id, count) = self.place(name);
            if count.is_none() {
                below.push(id);
            }
            count
        });
        (crowned.collect(), below)
    }

    /// The id of an edge, and what the crown has of it.
    pub(crate) fn place<N: Name>(&self, name: &N) -> (u64, Option<Count>) {
        let id = self.codes.id(name);
        (id, self.crown.get(self.codes.spot(id), name))
    }

    /// All edges of the crown that have a name of this kind.
    pub(super) fn named<N: Name>(&self) -> impl Iterator<Item = Flow<N>> {
        let entries = self.crown.entries();
        entries.filter_map(|(name, count)| Some(Flow::of_crown(N::of(name)?, &count)))
    }

    /// How many packets an edge that is not in the crown may have had: it did not
    /// outrank the lightest entry of its bucket, whatever of its bound is noise.
    pub(super) fn most_unnamed(&self) -> u64 {
        let entries = || self.crown.entries().map(|(name, _)| name);
        let spots = entries().map(|name| self.codes.spot(self.codes.id_of_any(&name)));
        let is_wide = |name: AnyName| matches!(name, AnyName::Wide(_));
        // A long name has to outrank two entries.
        let lightest = match entries().any(is_wide) {
            true => Crown::lightest::<Wide>,
            false => Crown::lightest::<Narrow>,
        };
        let lightest = spots.map(|spot| lightest(&self.crown, spot)).max();
        lightest.unwrap_or(0).saturating_add(self.noise)
    }

    /// The witnesses that only the layers know.
    pub(crate) fn uncrowned(&self) -> UncrownedWitnesses {
        let crowned = self.crown.entries();
        let crowned = crowned.map(|(name, _)| self.codes.id_of_any(&name));
        let mut crowned: Vec<u64> = crowned.filter(|id| *id < self.witnesses.limit()).collect();
        crowned.sort_unstable();
        let heard = self.witnesses.heard().iter();
        let below = heard.filter(|witness| crowned.binary_search(&witness.id).is_err());
        UncrownedWitnesses {
            witnesses: below.copied().collect(),
            distinct: self.witnesses.distinct(),
        }
    }
}
