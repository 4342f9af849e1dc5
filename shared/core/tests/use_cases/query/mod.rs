//! Queries.

mod adaptive;
mod live;
mod pages;
mod properties;
mod reference;
mod strategies;
