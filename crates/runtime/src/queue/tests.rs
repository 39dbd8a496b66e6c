//! The queue's contract, a bullet a test, in virtual time.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::*;

fn ready<T: Ord + Clone>(queue: &Queue<T>) -> Option<T> {
    queue.get().now_or_never().flatten()
}

#[tokio::test(start_paused = true)]
async fn a_key_added_many_times_is_worked_on_once() {
    let queue = Queue::default();
    for _ in 0..3 {
        queue.add("a");
    }
    queue.add("b");
    assert_eq!((ready(&queue), ready(&queue), ready(&queue)), (Some("a"), Some("b"), None));
    assert_eq!(queue.metrics().adds, 2);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_work_is_not_given_to_a_second_worker() {
    let queue = Queue::default();
    queue.add("a");
    assert_eq!(ready(&queue), Some("a"));
    queue.add("a");
    assert_eq!(ready(&queue), None, "the first worker still has it");
    queue.done(&"a");
    assert_eq!(ready(&queue), Some("a"), "what came meanwhile is not lost");
    queue.done(&"a");
    assert_eq!(ready(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_until_forgotten() {
    let queue = Queue::default();
    let mut waits = Vec::new();
    for round in 0..5 {
        if round == 4 {
            queue.forget(&"a");
        }
        let started = Instant::now();
        queue.add_rate_limited("a");
        let key = queue.get().await.unwrap();
        waits.push(started.elapsed().as_millis());
        queue.done(&key);
    }
    assert_eq!(waits, [5, 10, 20, 40, 5]);
    assert_eq!(queue.metrics().retries, 5);
}

#[tokio::test(start_paused = true)]
async fn of_two_delays_the_earlier_holds() {
    let queue = Queue::default();
    let started = Instant::now();
    queue.add_after("a", Duration::from_secs(60));
    queue.add_after("a", Duration::from_secs(10));
    queue.add_after("a", Duration::from_secs(90));
    let key = queue.get().await.unwrap();
    assert_eq!(started.elapsed(), Duration::from_secs(10));
    queue.done(&key);
    assert_eq!(queue.metrics().delayed, 0);
}

#[tokio::test(start_paused = true)]
async fn a_delay_added_while_workers_wait_wakes_one_in_time() {
    let queue = Queue::default();
    queue.add_after("late", Duration::from_secs(100));
    let waiting = tokio::spawn({
        let queue = queue.clone();
        async move { (queue.get().await, Instant::now()) }
    });
    tokio::task::yield_now().await;
    let started = Instant::now();
    queue.add_after("soon", Duration::from_secs(1));
    let (key, at) = waiting.await.unwrap();
    assert_eq!((key, at - started), (Some("soon"), Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_releases_every_waiting_worker() {
    let queue = Queue::<&str>::default();
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.get().await })
        })
        .collect();
    tokio::task::yield_now().await;
    queue.shut_down();
    queue.add("a");
    for worker in workers {
        assert_eq!(worker.await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn many_workers_lose_no_key_and_share_none() {
    let queue = Queue::default();
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move {
                let mut worked = Vec::new();
                while let Some(key) = queue.get().await {
                    tokio::task::yield_now().await;
                    queue.done(&key);
                    worked.push(key);
                    if queue.metrics() == (Metrics { adds: 100, ..Metrics::default() }) {
                        queue.shut_down();
                    }
                }
                worked
            })
        })
        .collect();
    (0..100).for_each(|key| queue.add(key));
    let mut all = Vec::new();
    for worker in workers {
        all.extend(worker.await.unwrap());
    }
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<_>>());
}
