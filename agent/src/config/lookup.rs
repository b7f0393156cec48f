//! The section `[lookup]`: databases of AS and country, and name servers.

use std::net::SocketAddr;
use std::path::Path;

use super::key_locations::KeyLocations;
use super::size::Size;
use super::{Anonymise, Config, ConfigError, small_file};
use crate::lookup::database::{Asns, Countries, Databases};
use crate::text::plain;

/// Largest file of a database. Free databases have 5 to 60 MiB.
const MAX_SIZE: Size = Size(256 << 20);

impl Config {
    /// The name servers to query, empty for those of the system. `None` if host names are
    /// not looked up. This is also so if addresses are hidden, because a query would reveal
    /// them to the name server.
    pub fn name_servers(&self) -> Option<Vec<SocketAddr>> {
        let resolves = self.lookup.resolve && self.export.anonymise == Anonymise::None;
        resolves.then(|| self.lookup.name_servers.clone())
    }

    /// Reads the files of `[lookup]`.
    pub(super) fn read_databases(
        &self,
        locations: &KeyLocations,
    ) -> Result<Databases, ConfigError> {
        let (asn, country) = (&self.lookup.asn, &self.lookup.country);
        Ok(Databases {
            asns: read("lookup.asn", asn.as_deref(), Asns::read, locations)?,
            countries: read(
                "lookup.country",
                country.as_deref(),
                Countries::read,
                locations,
            )?,
        })
    }
}

fn read<T>(
    key: &str,
    path: Option<&Path>,
    parse: fn(&[u8]) -> Result<T, String>,
    locations: &KeyLocations,
) -> Result<Option<T>, ConfigError> {
    let Some(path) = path else { return Ok(None) };
    let bytes = small_file::read(path, MAX_SIZE);
    let bytes = bytes.map_err(|error| format!("cannot be read: {error}"));
    let parsed = bytes.and_then(|bytes| parse(&bytes));
    parsed.map(Some).map_err(|why| {
        let (place, path) = (locations.of(key), plain::path(path));
        ConfigError::new(format_args!("{place} = {path:?}"), plain::text(&why))
    })
}
