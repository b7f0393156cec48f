//! The HTTP server: [`server`] accepts connections, [`permits`] limits them,
//! [`api`] answers, [`client`] asks a running agent; both know the same
//! [`answers`].

pub mod answers;
mod api;
pub mod client;
mod permits;
mod server;
mod stream;

pub use api::ApiState;
pub use server::{bind, serve};
