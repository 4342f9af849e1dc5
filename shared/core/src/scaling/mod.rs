//! How many shards a collection has, by itself: which may change ([`keys`]) and what the operator has set
//! ([`policy`]), what is known of the load ([`evidence`]), what follows from that ([`decide`]), carrying it out
//! ([`begin`]), what is kept of it ([`record`]), and what throttled requests do towards it ([`watch`]).

mod begin;
mod decide;
mod decision;
mod evidence;
mod keys;
mod policy;
mod record;
mod watch;

pub use decide::{Cause, Evidence, decide, decide_shrink};
pub use decision::{Action, Bound, Decision, Diagnosis, Figures, Outcome, Payback};
pub use keys::{EmptyPattern, GrowKeys};
pub use policy::{Access, Hindrance, PartitionLimits, ScalingMode, ScalingPolicy, ShrinkPolicy};
pub(crate) use policy::{check_change, fits_one_shard};
pub use record::{DecidedBy, DecisionHistory, DecisionRecord, DecisionsPage};
pub use watch::Telemetry;
pub(crate) use watch::{IsActing, REPORTING_TIME, Watch};
