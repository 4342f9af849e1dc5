//! Lambda and API Gateway: the executables of the functions, their runtime, the Invoke API and the
//! HTTP gateway.

mod binaries;
mod gateway;
mod invoke;
mod runtime;

pub use binaries::{Functions, build_functions};
pub(crate) use gateway::Gateway;
pub use gateway::{Principals, User};
pub(crate) use invoke::LambdaApi;
#[cfg(test)]
pub(crate) use runtime::fake;
pub(crate) use runtime::{
    Background, Bootstraps, Completed, InvokeError, MAX_PAYLOAD, Pool, Runtime,
};
