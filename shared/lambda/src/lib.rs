//! The edge that the functions share: what comes in from Lambda and API Gateway, and what goes out.
//!
//! Nothing is decided here. An event becomes a [`Request`], its parts become checked values of the
//! domain ([`params`], [`body`], [`headers`]), and what the core answers becomes a [`Response`] or
//! a [`Problem`].

mod admission;
pub mod alarm;
pub mod body;
mod config;
mod connect;
mod event;
mod grants;
pub mod headers;
pub mod json;
mod log;
pub mod metrics;
pub mod params;
mod patience;
mod problem;
pub mod release;
mod response;
mod runtime;
pub mod view;

pub use admission::Admission;
pub use config::{
    Config, ConfigError, ConfigErrors, LONGEST_LEASE, LONGEST_REQUEST_LIFETIME,
    SHORTEST_REQUEST_LIFETIME, UNVERIFIED_REQUEST_LIFETIME, is_request_lifetime_verified,
    settings_from_variables,
};
pub use event::Request;
pub use grants::{GrantedKeys, Grants, GrantsError};
pub use log::{LogKeys, subscriber};
pub use patience::Patience;
pub use problem::{Explained, Problem, log_failures, log_left_out};
pub use response::{Format, Response};
pub use runtime::{EventHandler, Handler, answer, run, run_events, start, start_with_alarms};
