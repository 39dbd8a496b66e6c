//! gRPC over Unix sockets: calls, and answers to them. Runtimes and device plugins speak it.

pub mod client;
pub mod server;
