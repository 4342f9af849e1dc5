//! The words of the HTTP API, which its functions share with clients and with the operators' commands.
//!
//! Nothing is decided here. What a client sends becomes checked values of the domain ([`params`], [`body`], [`headers`]),
//! within what its caller is granted ([`grants`]). What the core answers becomes JSON ([`json`], [`view`]), and a
//! [`response`] or a [`problem`]. And [`settings`] reads the parameters of a stack, by which all of them go.

pub mod body;
pub mod grants;
pub mod headers;
pub mod json;
pub mod params;
pub mod problem;
pub mod release;
pub mod request;
pub mod response;
pub mod settings;
pub mod view;
