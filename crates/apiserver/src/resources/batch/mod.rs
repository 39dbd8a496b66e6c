//! Work that ends.

pub mod cron;
pub mod cron_job;
pub mod job;
