//! The HTTP server: [`server`] accepts connections to its [`listeners`], [`permits`] limits them,
//! [`protection`] says with which certificate and [`passwords`], [`api`] answers from
//! what is [`shown`] of addresses, [`client`] asks a running agent; both know the
//! same [`answers`].

mod anonymise;
pub mod answers;
mod api;
pub mod client;
mod listeners;
mod passwords;
mod permits;
mod protection;
mod server;
mod shown;
mod stream;
mod tls;

pub use api::ApiState;
pub use listeners::bind;
pub use protection::Rules;
pub use server::{Server, serve};
pub use shown::{Disguise, Shown};
