//! One schema model for every kind, built-in or custom, and everything that is decided by a schema alone.
//!
//! Objects are `serde_json::Value`s. Nothing here knows a kind by name, asks for the time or touches a store.
//!
//! # Layout
//!
//! - the model: [`node`] (what a schema says), [`builtin`] (the fact table of the API's own types),
//!   [`crd`] (compiled from a CustomResourceDefinition), [`structural`] (what such a schema must get right), [`scalar`] (times, base64, their errors)
//! - notations: [`protobuf`] (both ways between its messages and JSON)
//! - a body comes in: [`decode`] (built-in types, as the API's strict decoder), [`prune`] and [`default`]
//!   (custom types), [`strict`] (what both found unknown or twice), [`validate`] with [`mod@format`] (custom types)
//! - a patch comes in: [`patch`] (its errors), [`json_patch`], [`merge_patch`], [`strategic`] with `order`
//! - what changed: [`diff`]; who owns which field: [`fieldset`] with [`element`] (sets of paths), [`typed`] (compare, merge and remove by
//!   schema), [`managed`] (the entries of `metadata.managedFields`), `last_applied` (the annotation of older clients),
//!   [`apply`] (server-side apply and tracking)
//! - what clients read: [`openapi`]

pub mod builtin;
pub mod crd;
pub mod node;
pub mod scalar;
pub mod structural;

pub mod protobuf;

pub mod decode;
pub mod default;
pub mod format;
pub mod prune;
pub mod strict;
pub mod validate;

pub mod json_patch;
pub mod merge_patch;
mod order;
pub mod patch;
pub mod strategic;

pub mod apply;
pub mod diff;
pub mod element;
pub mod fieldset;
mod last_applied;
pub mod managed;
pub mod typed;

pub mod openapi;

pub use node::{Field, Kind, ListType, Node, NodeId, Patch, Rules, Schema};
