//! Authentication and authorization by other people's code: programs outside that answer, refuse, break, hang and lie, over real
//! TLS with an authority of their own, in virtual time.

mod authorizers;
mod issuers;
mod outside;
mod proxies;
mod questions;
mod recorded;
mod reviewers;
mod tokens;
