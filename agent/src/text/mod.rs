//! Text output: units, tables, and what a terminal supports.

pub mod columns;
pub mod plain;
pub mod table;
pub mod terminal;
pub mod units;
