//! DynamoDB's expressions: what an endpoint puts into those of its clients, what it reads off them, and what they say of an
//! item.
//!
//! - [`wrap`] makes a condition part of a conjunction with a guard, [`with_assignments`] adds to an update, [`with_projected`]
//!   to a projection. [`Placeholders`] names what they add, beside the client's own names and values.
//! - [`reserved`] finds a name that a client must not touch, [`equality`] the partition key of a query, and [`excess`] tells
//!   whether a text is above DynamoDB's limits.
//! - [`legacy`] writes the parameters from before there were expressions as expressions, since they cannot stand beside one.
//! - [`Condition`] tells whether a condition or a filter holds of an item, [`Projection`] takes parts of one, and
//!   [`KeyCondition`] tells what a query is of.
//!
//! What is put into an expression does not depend on what that says. Texts are cut into tokens, which is enough to put a guard
//! beside any text, and DynamoDB judges the rest, in its own words. What becomes of a text that DynamoDB refuses alone, it
//! refuses too: nothing here makes a malformed expression a good one.
//!
//! What an expression says is asked of those that DynamoDB has taken: all of them are understood, and some that it refuses.
//!
//! # Sources
//!
//! The [expressions][expressions], [reserved words][words], [limits][limits] and [legacy parameters][legacy] of the Amazon
//! DynamoDB Developer Guide. Where it is silent, a doc says so.
//!
//! [expressions]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Expressions.html
//! [words]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/ReservedWords.html
//! [limits]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html
//! [legacy]: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/LegacyConditionalParameters.html

pub mod legacy;

mod comparator;
mod condition;
mod cursor;
mod excess;
mod guard;
mod key_condition;
mod key_value;
mod malformed;
mod path;
mod placeholders;
mod projection;
mod reserved;
mod tokens;
mod update;
mod value;

pub use condition::Condition;
pub use excess::{Excess, excess};
pub use guard::{either, wrap};
pub use key_condition::{KeyCondition, KeyRange, equality};
pub use key_value::uses_value_of;
pub use malformed::Malformed;
pub use placeholders::{Placeholders, uses};
pub use projection::{Projection, with_projected};
pub use reserved::reserved;
pub use update::{may_create, with_assignments};
