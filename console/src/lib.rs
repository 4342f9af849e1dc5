//! The console: a page that shows which collections are hot, whether they are relieved, what was decided and why,
//! and what that costs.
//!
//! It reads by the ports of the core what the functions have written: ledgers, decisions, metadata, items. What it
//! shows is made of that by pure functions (`view`, `series`, `course`, `change`), what it reads next is decided by
//! another (`schedule`). The server (`server`) is on 127.0.0.1, and answers only its own page (`guard`).

mod answer;
mod assets;
mod change;
mod cost;
mod course;
mod guard;
mod known;
pub mod palette;
mod schedule;
mod series;
mod server;
mod shared;
mod view;
mod watcher;

pub use cost::Prices;
pub use known::Trouble;
pub use server::{Console, Options};
pub use shared::{Tables, UsagePace};
