//! What goes over the wire between a client of DynamoDB and whoever answers in its place: signatures, and the members of bodies.

pub mod members;
pub mod signature;

use http::HeaderName;

/// The checksum of a body, which clients compare.
pub const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-crc32");
