//! The HTTP server: [`server`] accepts connections to its [`listeners`], [`permits`] limits them,
//! [`protection`] says with which certificate and [`passwords`], which wait in [`seats`], and
//! [`hosts`] by which names; [`api`] answers from
//! what is [`shown`] of addresses ([`lists`], [`history`], [`inside`] and the [`page`]
//! that shows them have files of their own), [`client`] asks a running agent; both know the
//! same [`answers`].

mod anonymise;
pub mod answers;
mod api;
pub mod client;
mod history;
mod hosts;
mod inside;
mod listeners;
mod lists;
mod own_certificate;
pub mod page;
mod passwords;
mod permits;
mod protection;
mod seats;
mod server;
mod shown;
mod stream;
mod tls;

pub use api::ApiState;
pub use history::History;
pub use listeners::bind;
pub use protection::Rules;
pub use server::{Server, serve};
pub use shown::{Disguise, Shown};
