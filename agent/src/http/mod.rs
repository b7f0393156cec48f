//! The HTTP server: [`server`] accepts connections, [`permits`] limits them,
//! [`protection`] says with which certificate and [`passwords`], [`api`] answers from
//! what is [`shown`] of addresses ([`lists`], [`history`], [`inside`] and the [`page`]
//! that shows them have files of their own), [`client`] asks a running agent; both know the
//! same [`answers`].

mod anonymise;
pub mod answers;
mod api;
pub mod client;
mod history;
mod inside;
mod lists;
pub mod page;
mod passwords;
mod permits;
mod protection;
mod server;
mod shown;
mod stream;
mod tls;

pub use api::ApiState;
pub use history::History;
pub use protection::Rules;
pub use server::{bind, serve};
pub use shown::Shown;
