//! Histories: several clients work on a store that is crashed under them, all they saw is written
//! down, and a checker says whether one correct store could have shown it to them.
//!
//! Every commit answers with its revision, so the order of commits is known and checking takes time
//! in proportion to the history, where it would be exponential if the order had to be guessed. What
//! nobody was answered (the client was cut off) is found again by its value, which names its writer.
//!
//! ```ignore
//! let history = record(&mut subject, &Plan::seeded(7)).await;
//! let violations = check(&history);
//! ```
//!
//! - `log`: what is written down
//! - `record`: the clients' lives and deaths; [`Subject`] is what a store under test implements
//! - `client`: what one client does
//! - `check`: the checker
//! - `subjects`: the engines of this crate as subjects

pub mod check;
mod client;
pub mod log;
#[cfg(test)]
mod planted;
mod record;
pub mod subjects;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod watching;

pub use check::{Kind, Violation, check};
pub use log::History;
pub use record::{Plan, Subject, record};
