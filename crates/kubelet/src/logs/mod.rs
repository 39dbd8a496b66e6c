//! The logs of containers on this machine: where they are, how they are read, and how they are kept small.
//!
//! - `place`: the files of one container
//! - `links`: by which collectors of logs find them
//! - `line`: one line as the runtime wrote it
//! - `options`: what of a log is wanted
//! - `tail`: where the last lines begin
//! - `read`: a log from its first wanted line to its end, and on
//! - `script`: the log of a container that is not there
//! - `rotate`: a log that has grown large is moved away

pub(crate) mod line;
pub(crate) mod links;
pub(crate) mod options;
pub(crate) mod place;
pub(crate) mod read;
pub(crate) mod rotate;
pub(crate) mod script;
mod tail;

pub use rotate::LogRotation;

#[cfg(test)]
mod tests;
