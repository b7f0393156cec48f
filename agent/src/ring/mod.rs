//! From captures to windows. A capture writes to an [`edge_ring`], the [`worker`] reads it in
//! batches, and each [`interface`] stores its own packets. A [`pipeline`] owns all of them; a
//! [`reader`] queries windows from other threads.

pub mod edge_ring;
pub mod interface;
mod live_queries;
pub mod pipeline;
pub mod reader;
pub mod renewal;
pub mod worker;
