//! The HTTP server. [`server`] accepts connections to its [`listeners`], [`permits`] limit them.
//! [`protection`] has TLS and users, whose [`passwords`] are checked in the order of the
//! [`password_queue`]; [`hosts`] checks host names. [`api`] has the handlers, of which [`lists`],
//! [`rates`], [`history`], [`export`], [`services`], [`sketch`], [`scrape`] and the [`page`] are in
//! files of their own; [`client`] sends requests to a running agent. Both use the types of
//! [`answers`].

pub mod answers;
mod api;
pub mod client;
mod export;
mod history;
mod hosts;
mod listeners;
mod lists;
mod own_certificate;
pub mod page;
mod password_queue;
mod passwords;
mod permits;
mod protection;
mod rates;
mod scrape;
mod server;
mod services;
mod sketch;
mod tls;

pub use api::ApiState;
pub use history::History;
pub use listeners::bind;
pub use protection::WebPolicy;
pub use rates::Rates;
pub use server::{Server, serve};
