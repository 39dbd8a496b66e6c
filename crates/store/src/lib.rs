//! Versioned keys with watch: a map from key to bytes with one global revision, compare-and-set
//! transactions, reads at a revision, watches from a revision, and keys that expire.
//!
//! The store knows keys, bytes and revisions, not objects. What it promises:
//!
//! - A transaction is applied whole or not at all, and takes one revision for all it changes.
//! - Reads take an immutable snapshot: a long list never blocks a writer, nor a writer a list.
//! - A watch delivers every change that concerns its [`Interest`] once, in order of revision, or says that it
//!   cannot ([`ReadError::Compacted`]), and is woken by no other. A slow watcher costs nobody else anything.
//! - Writers are answered before watchers are woken: how many watch does not delay a write.
//! - The file engine acknowledges a write, and shows it to readers and watchers, only after the sync
//!   that holds it returned (a [`Durability::Relaxed`] one up to a second before it). A failed write
//!   stops the store; it is never tried again.
//!
//! # Layout
//!
//! In the order a write walks it:
//!
//! - [`store`]: the [`Store`] trait, which every engine fulfils, and [`Options`]
//! - [`txn`]: what is asked of a commit, and what comes back
//! - [`entry`]: one version of one key, and the hole its revision is written into
//! - `stage`: transactions applied to a copy of the newest snapshot, not yet visible
//! - `snapshot`: the immutable state, its history, and reads at older revisions
//! - `pins`: the states that lists by pages are reading
//! - `state`: what every engine shares; publishes stages and tells watchers
//! - [`interest`]: what a watch is about: a prefix, a key, a value in an index that the watcher brings
//! - `topics`: watchers grouped by interest
//! - [`watch`]: events, and the watcher's end of a topic
//! - [`read`]: ranges, pages, and why a read is refused
//! - [`failpoint`]: named places in all of this where a test may step in
//! - [`mod@file`]: the default engine, durable in a directory
//! - [`etcd`]: the engine for several machines: transactions of etcd, and a replica that a watch feeds
//! - [`memory`]: the engine for tests
//! - `contract`: the test suite every engine passes (feature `contract`)
//! - `history`: clients and crashes written down, and a checker of what they saw (feature `contract`)

pub mod store;
pub mod txn;

pub mod entry;
mod stage;

mod pins;
mod snapshot;
mod state;

pub mod interest;
mod topics;
pub mod watch;

pub mod read;

pub mod etcd;
pub mod failpoint;
pub mod file;
pub mod memory;

#[cfg(any(test, feature = "contract"))]
pub mod chance;
#[cfg(any(test, feature = "contract"))]
pub mod contract;
#[cfg(any(test, feature = "contract"))]
pub mod history;
#[cfg(test)]
mod tests;

pub use entry::{Entry, Splice};
pub use etcd::EtcdStore;
pub use file::FileStore;
pub use interest::{Index, Interest};
pub use memory::MemoryStore;
pub use read::{Page, Range, ReadError};
pub use store::{Options, Store};
pub use txn::{CommitError, Committed, Durability, Expect, Op, Txn};
pub use watch::{Event, EventKind, Watch};

/// The number of a transaction; a store starts at 1, its first transaction is 2.
pub type Revision = u64;
