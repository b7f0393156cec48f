//! JSON of all lists: the form of the API, and that of the report of a replay.

use serde::de::{DeserializeOwned, Error};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value as Json};

use super::{BothOrders, LISTS, ListName, Lists, Visitor};
use crate::traffic::question::By;
use crate::window::list::{Key, List, Value};

impl Lists {
    /// Reads what [`Serialize`] has written.
    fn read(map: &mut Map<String, Json>) -> serde_json::Result<Self> {
        let by = if map.contains_key("complete_above_bytes") {
            By::Bytes
        } else {
            By::Packets
        };
        let incomplete: Vec<String> = take(map, "incomplete")?;
        let [
            pairs,
            conversations,
            sources,
            destinations,
            services,
            fan_out,
            fan_in,
            asns,
        ] = &LISTS;
        let has_asns = map.contains_key(asns.name);
        Ok(Self {
            by,
            pairs: take_list(map, pairs, by, &incomplete)?,
            conversations: take_list(map, conversations, by, &incomplete)?,
            sources: take_list(map, sources, by, &incomplete)?,
            destinations: take_list(map, destinations, by, &incomplete)?,
            services: take_list(map, services, by, &incomplete)?,
            asns: has_asns
                .then(|| take_list(map, asns, by, &incomplete))
                .transpose()?,
            fan_out: take_list(map, fan_out, by, &incomplete)?,
            fan_in: take_list(map, fan_in, by, &incomplete)?,
            notable: take(map, "notable")?,
        })
    }
}

fn take<T: DeserializeOwned + Default>(
    map: &mut Map<String, Json>,
    key: &str,
) -> serde_json::Result<T> {
    map.remove(key)
        .map_or_else(|| Ok(T::default()), serde_json::from_value)
}

fn take_list<K: Key, V: Value>(
    map: &mut Map<String, Json>,
    name: &ListName,
    by: By,
    incomplete: &[String],
) -> serde_json::Result<List<K, V>> {
    Ok(List {
        rows: take(map, name.name)?,
        others_at_most: take(map, &name.promise(by))?,
        incomplete: incomplete.iter().any(|one| one == name.name),
    })
}

/// The form of the API.
impl Serialize for Lists {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Entries<'a, M>(&'a mut M, By);
        impl<M: SerializeMap> Visitor for Entries<'_, M> {
            type Error = M::Error;
            fn visit<K: Key, V: Value>(
                &mut self,
                name: &'static ListName,
                list: &List<K, V>,
            ) -> Result<(), M::Error> {
                self.0.serialize_entry(name.name, &list.rows)?;
                let promise = name.promise(self.1);
                self.0.serialize_entry(&promise, &list.others_at_most)
            }
        }
        let mut map = serializer.serialize_map(None)?;
        self.visit(&mut Entries(&mut map, self.by))?;
        map.serialize_entry("notable", &self.notable)?;
        let incomplete = self.incomplete();
        if !incomplete.is_empty() {
            map.serialize_entry("incomplete", &incomplete)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Lists {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Map::deserialize(deserializer)?;
        Self::read(&mut map).map_err(D::Error::custom)
    }
}

/// The form of the report of a replay.
impl Serialize for BothOrders {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Entries<'a, M>(&'a mut M, By);
        impl<M: SerializeMap> Visitor for Entries<'_, M> {
            type Error = M::Error;
            fn visit<K: Key, V: Value>(
                &mut self,
                name: &'static ListName,
                list: &List<K, V>,
            ) -> Result<(), M::Error> {
                let promise = match self.1 {
                    By::Bytes if !V::HAS_BYTES => return Ok(()),
                    By::Bytes if name.name != "pairs" => {
                        format!("{}_bytes_others_at_most", name.name)
                    }
                    by => name.promise(by),
                };
                let suffix = match self.1 {
                    By::Packets => "",
                    By::Bytes => "_bytes",
                };
                let key = format!("{}{suffix}", name.report);
                self.0.serialize_entry(&key, &list.rows)?;
                self.0.serialize_entry(&promise, &list.others_at_most)
            }
        }
        let mut map = serializer.serialize_map(None)?;
        for lists in [&self.by_packets, &self.by_bytes] {
            lists.visit(&mut Entries(&mut map, lists.by))?;
        }
        map.serialize_entry("notable", &self.by_packets.notable)?;
        for (key, lists) in [
            ("incomplete", &self.by_packets),
            ("incomplete_bytes", &self.by_bytes),
        ] {
            let incomplete = lists.incomplete();
            if !incomplete.is_empty() {
                map.serialize_entry(key, &incomplete)?;
            }
        }
        map.end()
    }
}
