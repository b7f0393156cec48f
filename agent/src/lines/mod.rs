//! Windows as lines for other programs: a line for the window and one for each row of its lists,
//! as JSON Lines or CSV. The columns are declared once, in [`columns`]. Rows are converted
//! through their JSON, so that a new list needs no code here.
//!
//! | module | holds |
//! |---|---|
//! | [`columns`] | the schema: every column and its type |
//! | [`line`] | a line and its formats |
//! | [`window`] | the lines of a window |
//! | [`answer`] | the lines of an answer to a question |
//! | [`file`] | a file of limited size and its older files |
//! | [`queue`] | lines that wait to be written, and the count of lost lines |
//! | [`sink`] | threads that convert and write windows that have ended |
//! | [`written`] | the windows that a file already contains |

pub mod answer;
pub mod columns;
pub mod file;
pub mod line;
pub mod queue;
pub mod sink;
pub mod window;
mod written;
