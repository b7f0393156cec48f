//! The HTTP server: [`server`] accepts connections, [`permits`] limits them,
//! [`api`] answers, [`client`] asks a running agent.

mod api;
pub mod client;
mod permits;
mod server;
mod stream;

pub use api::Source;
pub use server::{bind, serve};
