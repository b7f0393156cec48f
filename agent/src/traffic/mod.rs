//! Types that the other modules share: packets and edges, their addresses, services and protocols,
//! names of networks, batches of edges, and the counters of an interface.

pub mod anonymise;
pub mod batch;
pub mod batches;
pub mod edge;
pub mod endpoint;
pub mod names;
pub mod packet;
pub mod protocol;
pub mod question;
pub mod service;
pub mod slot;
pub mod tally;
