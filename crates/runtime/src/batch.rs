//! Slow start: 1, then 2, then 4, … at once, and no further once one has failed.
//!
//! A thousand Pods that a quota refuses cost one refused request, not a thousand.

use std::future::Future;

/// How far a batch came.
#[derive(Debug)]
pub struct Batch<E> {
    pub succeeded: usize,
    /// Never tried.
    pub skipped: usize,
    pub first_error: Option<E>,
}

/// Calls `each` with 0, 1, … `count - 1`, in rounds that double; the round in which one fails is the last.
pub async fn slow_start<E, F>(count: usize, each: impl Fn(usize) -> F) -> Batch<E>
where
    F: Future<Output = Result<(), E>>,
{
    let (mut succeeded, mut next, mut size) = (0, 0, 1);
    while next < count {
        let round = next..(next + size).min(count);
        next = round.end;
        let mut first_error = None;
        for result in futures::future::join_all(round.map(&each)).await {
            match result {
                Ok(()) => succeeded += 1,
                Err(error) => first_error = first_error.or(Some(error)),
            }
        }
        if first_error.is_some() {
            return Batch { succeeded, skipped: count - next, first_error };
        }
        size *= 2;
    }
    Batch { succeeded, skipped: 0, first_error: None }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[tokio::test]
    async fn everything_is_done_when_nothing_fails() {
        let batch = slow_start(10, |_| async { Ok::<(), ()>(()) }).await;
        assert_eq!((batch.succeeded, batch.skipped), (10, 0));
    }

    #[tokio::test]
    async fn a_quota_costs_one_round_of_refusals() {
        let tried = RefCell::new(Vec::new());
        let batch = slow_start(100, |index| {
            tried.borrow_mut().push(index);
            async move { if index < 2 { Ok(()) } else { Err("quota") } }
        })
        .await;
        // Rounds of 1, 2 and no more: the second one met the quota.
        assert_eq!(tried.into_inner(), [0, 1, 2]);
        assert_eq!((batch.succeeded, batch.skipped, batch.first_error), (2, 97, Some("quota")));
    }
}
