//! The growth of a collection by itself: when it may begin ([`policy`]), its beginning ([`begin`]), and
//! what throttled writers do towards it ([`writers`]).

mod begin;
mod policy;
mod writers;

pub(crate) use policy::check_change;
pub use policy::{Growth, NoGrowth, ScalingMode, ScalingPolicy};
pub use writers::Telemetry;
pub(crate) use writers::WriterGrowths;
