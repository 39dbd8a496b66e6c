//! Kinds as data: how their objects are read, written and kept small, compiled once for all who handle them.
//!
//! Code that is generic over a kind is compiled again in every crate that names one, and a Pod's reader alone is half a megabyte.
//! So what depends on a kind's type is a [`Codec`] here, and informers, queues and writers handle an [`Object`] without knowing
//! what it is.
//!
//! # Layout
//!
//! - [`object`]: an object of any kind; [`codec`]: what is compiled for each kind; [`builtin`]: the kinds of Kubernetes
//! - [`text`]: lists and objects as text, before they are decoded; `mend`: what Go leaves out and Rust's types want
//! - [`packed`]: objects kept small; [`changed`]: in which fields two states differ

pub mod builtin;
pub mod codec;
pub mod object;

mod mend;
pub mod text;

pub mod changed;
pub mod packed;

pub use codec::{Codec, Kind};
pub use object::{Object, seen_as, typed};
