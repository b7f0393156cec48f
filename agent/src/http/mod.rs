//! The HTTP server: [`server`] accepts connections within limits, [`api`]
//! answers, [`client`] asks a running agent.

mod api;
pub mod client;
mod server;

pub use api::Source;
pub use server::{bind, serve};
