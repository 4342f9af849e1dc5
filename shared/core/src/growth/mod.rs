//! The growth of a collection by itself: which may grow ([`keys`]), when it may begin ([`policy`]), its
//! beginning ([`begin`]), and what throttled writers do towards it ([`writers`]).

mod begin;
mod keys;
mod policy;
mod writers;

pub use keys::{EmptyPattern, GrowKeys};
pub(crate) use policy::check_change;
pub use policy::{Growth, NoGrowth, ScalingMode, ScalingPolicy};
pub use writers::Telemetry;
pub(crate) use writers::WriterGrowths;
