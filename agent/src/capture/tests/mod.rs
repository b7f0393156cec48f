//! Tests of live capture as a whole on a fake network: events that would need root and
//! seconds with the kernel take milliseconds here.

mod links;
mod overload;
mod rates;
mod reload;
mod window_turns;
