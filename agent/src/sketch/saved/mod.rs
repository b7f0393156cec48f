//! Windows that outlive the agent: each interface has a file with its current window,
//! from which the next run goes on if the window has not ended.
//!
//! What is kept is all that answers come from: the sketches of pairs, sources,
//! destinations and services, fan-out and fan-in, main services, packets and bytes of
//! the window, when it began, how long it goes on, and the key. Not kept are the
//! window before it, which is over, counters, which Prometheus expects to begin at 0,
//! and what keeps exported lists from flapping.
//!
//! | part | does |
//! |---|---|
//! | [`window`] | what a file says: a head that can be judged by itself, and the sketches |
//! | [`settings`] | what a window must have in common with an agent that takes it up |
//! | [`folder`] | the files: replaced as a whole, judged at the start, set aside |
//! | [`writer`] | a thread that writes, so that a slow disk does not delay packets |
//! | [`private`] | that nobody else can read the key or write here |
//! | [`parts`] | numbers and texts in bytes |

pub mod folder;
pub mod parts;
mod private;
pub mod settings;
pub mod window;
pub mod writer;

#[cfg(test)]
mod tests;
