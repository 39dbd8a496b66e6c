//! Work that ends.

pub mod cron_job;
pub mod indexes;
pub mod job;
pub mod job_policy;
pub mod job_spec;
pub mod job_status;
