//! What the loops of this process say about themselves, for `pintle loops`.

use pintle_runtime::Board;
use pintle_runtime::board::{Failing, LastError, Report};
use serde_json::{Value, json};

/// So many failing keys are named for each loop.
const MOST_FAILING: usize = 5;

pub(crate) fn of(board: &Board) -> Value {
    board.reports().iter().map(shown).collect()
}

fn shown(report: &Report) -> Value {
    let Report { name, queue, longest, reconciles, per_minute, failing, last_error } = report;
    let named = failing.iter().take(MOST_FAILING);
    let named: Vec<Value> = named
        .map(|Failing { key, failures, error }| json!({"key": key.to_string(), "failures": failures, "error": error}))
        .collect();
    let longest = longest.as_ref().map(|(key, time)| json!({"key": key.to_string(), "seconds": time.as_secs_f64()}));
    let last_error = last_error
        .as_ref()
        .map(|LastError { key, error, at }| json!({"key": key.to_string(), "error": error, "time": at.to_string()}));
    json!({
        "name": name, "depth": queue.depth, "delayed": queue.delayed, "working": queue.working, "adds": queue.adds,
        "retries": queue.retries, "reconciles": reconciles, "perMinute": per_minute, "longestRunning": longest,
        "failing": {"count": failing.len(), "keys": named}, "lastError": last_error,
    })
}
