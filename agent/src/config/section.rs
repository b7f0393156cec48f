//! How keys are declared: the macro [`section!`] makes a struct, its defaults and its list of
//! [`Key`]s from one declaration.
//!
//! Everything that depends on all keys follows from these lists: variables, the comparison at a
//! reload, the commented file `agent/crane-agent.toml` and a table in `docs/reference.md`.
//! `GOLDEN=write cargo test -p crane-agent --lib config` writes the last two.

/// A key of the configuration.
#[derive(Debug)]
pub struct Key {
    /// Name with the section, like `window.length`. It begins with a dot outside of sections.
    pub(super) dotted: &'static str,
    /// Lines of the comment in the file, each with a leading space.
    #[cfg(test)]
    pub(super) comment: &'static [&'static str],
    /// A value to show in the file, commented out.
    #[cfg(test)]
    pub(super) example: Option<&'static str>,
    pub reload: Reload,
    /// `None` for a key that all commands use.
    pub only: Option<Only>,
}

/// What a reload does if a key has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reload {
    /// Compares the interfaces again.
    Interfaces,
    /// Opens captures again.
    Captures,
    /// Hands packets over to a new ring.
    Ring,
    /// Decodes or stores the next packets in another way.
    Packets,
    /// Begins a new window.
    Window,
    /// Replaces the names of networks.
    Names,
    /// Shows windows in another way.
    View,
    /// Reads the AS and the country of addresses from other files.
    Databases,
    /// Looks up host names in another way.
    HostNames,
    /// Opens the file for the lines of windows again.
    Lines,
    /// Binds and closes listeners.
    Listeners,
    /// Replaces the protection.
    Protection,
    /// Checks requests in another way.
    Requests,
    /// Saves windows at another interval.
    Saving,
    /// Nothing; the new value needs a restart.
    Restart,
}

/// When a replay uses a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Never: the key is for live capture.
    Live,
    /// Only if the replay serves HTTP.
    Serving,
    /// Only if batches do not wait until they are full.
    Lingering,
}

impl Key {
    /// Name with the section, if there is one.
    pub fn path(&self) -> &'static str {
        self.dotted.trim_start_matches('.')
    }

    /// The section, empty outside of sections, and the name.
    pub fn parts(&self) -> (&'static str, &'static str) {
        self.dotted.split_once('.').unwrap_or(("", self.dotted))
    }
}

/// Declares a section: comment, range or parser, effect of a reload and default of each key.
/// Fields after `..` are not keys.
macro_rules! section {
    (
        $section:literal $name:ident {
            $(
                $(#[doc = $comment:literal])*
                $(#[serde($($serde:tt)*)])?
                #[reload($reload:ident)]
                $(#[only($only:ident)])?
                $(#[example($example:literal)])?
                $key:ident: $type:ty = $default:expr,
            )*
            $(.. $($(#[$meta:meta])* $other:ident: $other_type:ty,)*)?
        }
    ) => {
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $($(#[doc = $comment])* $(#[serde($($serde)*)])? pub $key: $type,)*
            $($($(#[$meta])* pub $other: $other_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($key: $default,)*
                    $($($other: Default::default(),)*)?
                }
            }
        }

        impl $name {
            const KEYS: &[Key] = &[$(Key {
                dotted: concat!($section, ".", stringify!($key)),
                #[cfg(test)]
                comment: &[$($comment),*],
                #[cfg(test)]
                example: [$($example)?].first().copied(),
                reload: Reload::$reload,
                only: [$(Only::$only)?].first().copied(),
            },)*];

            /// The keys with other values than in `before`.
            fn changed(&self, before: &Self) -> impl Iterator<Item = &'static Key> {
                let changed = [$(self.$key != before.$key),*];
                Self::KEYS.iter().zip(changed).filter_map(|(key, changed)| changed.then_some(key))
            }
        }
    };
}
pub(super) use section;
