//! When a node counts as silent, which taints its conditions call for, and how long a Pod bears them.

mod health;
mod taints;
mod tolerate;

pub(super) use health::{Heard, Verdict, judge, not_ready_now, ready_status};
pub(super) use taints::{no_execute_taints, wanted_taints};
pub(super) use tolerate::{Fate, evicted, fate};
