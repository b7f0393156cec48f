//! Windows for other programs: a line for the window and one for each row of its lists, as
//! JSON Lines or as CSV. The columns are declared once, in [`columns`]; every row of every
//! list becomes a line through what it writes as JSON, so that no list is named here.
//!
//! | module | holds |
//! |---|---|
//! | [`columns`] | the schema: every column, its type and its meaning |
//! | [`line`] | one line, and how it is written |
//! | [`window`] | the lines of a window |
//! | [`answer`] | the lines of an answer to a question |
//! | [`file`] | a file of limited size, and the ones before it |
//! | [`queue`] | lines that wait to be written, and those that are lost |
//! | [`sink`] | takes windows as they end, in threads of its own |
//! | [`written`] | which windows a file has already |

pub mod answer;
pub mod columns;
pub mod file;
pub mod line;
pub mod queue;
pub mod sink;
pub mod window;
mod written;
