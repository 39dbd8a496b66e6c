//! The example operator: an `At` runs a command once, at a given time.
//!
//! # Layout
//!
//! In the order in which it runs: [`types`] (what people write), [`definition`] (how a cluster learns of it), [`plan`]
//! (what to do about one, pure), [`cloud`] (the world outside), [`reconcile`] (doing it), [`webhooks`] (what the API server asks
//! before it stores one). The program in `main.rs` connects them to a cluster.

pub mod cloud;
pub mod definition;
pub mod plan;
pub mod reconcile;
pub mod types;
pub mod webhooks;
