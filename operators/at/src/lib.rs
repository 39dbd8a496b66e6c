//! The example operator: an `At` runs a command once, at a given time.
//!
//! # Layout
//!
//! In the order in which it runs: [`types`] (what people write), [`plan`] (what to do about it, pure), [`reconcile`]
//! (doing it). The program in `main.rs` connects them to a cluster.

pub mod plan;
pub mod reconcile;
pub mod types;
