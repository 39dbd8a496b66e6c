//! Objects as data: what every other crate says about names, labels, amounts, errors and time.
//!
//! # Layout
//!
//! - [`clock`]: the time, passed in; the one place that asks the operating system for it
//! - [`random`]: chance, passed in; a seeded source
//! - [`names`]: group, version, kind, resource
//! - [`hash`]: a number that stands for some bytes, everywhere the same
//! - [`network`]: the addresses that all parts agree on
//! - [`object`]: reading and writing the metadata of a dynamic object
//! - [`labels`]: label and field selectors
//! - [`quantity`]: amounts such as `500m` and `1Gi`
//! - [`query`]: the query of a URL
//! - [`range`]: ranges of addresses such as `10.244.0.0/16`
//! - [`rules`]: what a name, a label, a port may look like
//! - [`field`]: paths into an object and what is wrong there
//! - [`status`]: the answer that says what went wrong
//! - [`trace`]: W3C trace context

pub mod clock;
pub mod duration;
pub mod field;
pub mod hash;
pub mod labels;
pub mod names;
pub mod network;
pub mod object;
pub mod quantity;
pub mod query;
pub mod random;
pub mod range;
pub mod rules;
pub mod status;
pub mod trace;

pub use clock::Clock;
pub use names::{GroupVersionKind, GroupVersionResource};
pub use random::Random;
pub use range::Range;
pub use status::Status;
pub use trace::TraceParent;
