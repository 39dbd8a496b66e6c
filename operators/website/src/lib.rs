//! The operator for Website: runs an image, so many times, and says how far it is.
//!
//! # Layout
//!
//! In the order in which it runs: [`types`] (what people write), [`plan`] (what to do about one, pure), [`reconcile`]
//! (doing it). The program in `main.rs` connects them to a cluster.

pub mod plan;
pub mod reconcile;
pub mod types;
