//! The published state of all interfaces. It is immutable and replaced as a whole, so readers do
//! not wait for the worker.

use std::sync::Arc;
use std::time::Instant;

use super::Window;
use super::state::Figures;
use crate::lookup::Lookup;
use crate::traffic::names::Names;
use crate::traffic::tally::Tally;

/// All interfaces at one moment.
pub struct Snapshot {
    /// In the order in which they were opened.
    pub interfaces: Vec<Arc<InterfaceView>>,
    /// Names of networks, if they are configured.
    pub names: Option<Arc<Names>>,
    /// Databases and host names of addresses.
    pub lookup: Arc<Lookup>,
    pub published: Instant,
}

/// One interface at one moment.
pub struct InterfaceView {
    /// Name of the interface or file.
    pub name: String,
    /// Counters of the interface, which the capture continues to update.
    pub tally: Arc<Tally>,
    /// The last complete window.
    pub last: Option<Arc<Window>>,
    /// The final state of an interface that has ended.
    pub ended: Option<EndedView>,
}

/// The final state of an interface or file that has ended.
pub struct EndedView {
    /// The window that was being filled.
    pub current: Arc<Window>,
    pub figures: Arc<Figures>,
}
