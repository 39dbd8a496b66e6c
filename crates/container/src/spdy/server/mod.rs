//! The server's side of SPDY/3.1: [`Incoming`] grants a client its streams and reads what it says, [`Sender`] answers it.
//!
//! - [`ports`]: port-forward, all of it
//!
//! What the streams of a command mean is known to the node that runs it.

pub mod ports;

pub use super::incoming::{Event, Incoming};
pub use super::outgoing::{Outgoing, Sender, outgoing};
pub use ports::ports;
