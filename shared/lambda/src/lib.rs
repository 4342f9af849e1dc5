//! The edge that the functions share: configuration, events, the log, metrics, and the runtime.
//!
//! Nothing is decided here. What Lambda hands over becomes an [`Event`], and what a function answers goes back by the time
//! that Lambda gives. The words of the API itself are those of `dynashard-api`.

mod admission;
pub mod alarm;
mod config;
mod connect;
mod event;
mod log;
pub mod metrics;
mod patience;
mod runtime;

pub use admission::Admission;
pub use config::Config;
pub use event::{Event, HttpEvent};
pub use log::{LogKeys, log_failures, log_left_out, subscriber};
pub use patience::Patience;
pub use runtime::{Handler, Invocation, answer, serve, serve_requests, start, start_with_alarms};
