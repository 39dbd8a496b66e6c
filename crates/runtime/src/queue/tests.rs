//! The queue's contract, a bullet a test, in virtual time.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use super::*;

fn ready<T: Hash + Eq + Clone>(queue: &Queue<T>) -> Option<T> {
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

#[tokio::test(start_paused = true)]
async fn what_is_urgent_goes_first_and_a_raise_is_never_taken_back() {
    let queue = Queue::default();
    queue.add_in("look", Class::Low);
    queue.add("change");
    queue.add_in("raised", Class::Low);
    queue.add_in("fire", Class::Urgent);
    queue.add_in("raised", Class::Urgent);
    queue.add_in("fire", Class::Low);
    assert_eq!(queue.metrics().depth_by_class, [2, 1, 1]);
    let order: Vec<_> = std::iter::from_fn(|| ready(&queue)).collect();
    assert_eq!(order, ["fire", "raised", "change", "look"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_added_again_during_work_keeps_the_most_urgent_class() {
    let queue = Queue::default();
    queue.add("a");
    assert_eq!(ready(&queue), Some("a"));
    queue.add_in("a", Class::Urgent);
    queue.add_in("a", Class::Low);
    queue.add("b");
    queue.done(&"a");
    assert_eq!((ready(&queue), ready(&queue)), (Some("a"), Some("b")));
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_urgent_keys_does_not_starve_the_others() {
    let queue = Queue::default();
    queue.add_in(1_000, Class::Low);
    queue.add_in(2_000, Class::Normal);
    let mut served = Vec::new();
    for key in 0..100 {
        queue.add_in(key, Class::Urgent);
        tokio::time::sleep(Duration::from_secs(1)).await;
        served.extend(ready(&queue).inspect(|key| queue.done(key)));
    }
    let at = |key| served.iter().position(|served| *served == key).unwrap();
    assert_eq!((at(2_000), at(1_000)), (29, 59), "one period, and two, of the thirty seconds of ageing");
}

#[tokio::test(start_paused = true)]
async fn an_aged_key_stands_among_those_who_came_when_it_did() {
    let queue = Queue::with(Config { ageing: Duration::from_secs(10), ..Config::default() });
    queue.add_in("old look", Class::Low);
    tokio::time::sleep(Duration::from_secs(5)).await;
    queue.add("change");
    assert_eq!(ready(&queue), Some("change"), "five seconds are not enough");
    queue.done(&"change");
    queue.add("change");
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(ready(&queue), Some("old look"));
}

#[tokio::test(start_paused = true)]
async fn many_failing_keys_share_one_rate_but_fresh_keys_do_not_pay_it() {
    let queue = Queue::default();
    let started = Instant::now();
    for key in 0..110 {
        queue.add_rate_limited(key);
    }
    let mut last = Duration::ZERO;
    for _ in 0..110 {
        let key = queue.get().await.unwrap();
        queue.done(&key);
        last = started.elapsed();
    }
    assert!((Duration::from_millis(990)..=Duration::from_millis(1010)).contains(&last), "{last:?}");
    queue.add(7);
    assert_eq!(ready(&queue), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_fresh_change_ends_the_wait_of_a_failed_key_but_not_its_count() {
    let queue = Queue::new(Backoff { first: Duration::from_secs(60), longest: Duration::from_secs(600) });
    queue.add_rate_limited("a");
    assert_eq!(ready(&queue), None);
    queue.add("a");
    assert_eq!(ready(&queue), Some("a"));
    assert_eq!(queue.failures(&"a"), 1);
    queue.done(&"a");
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(ready(&queue), Some("a"), "the retry still comes");
}

#[tokio::test(start_paused = true)]
async fn people_see_how_long_keys_wait_and_which_work_is_stuck() {
    let queue = Queue::default();
    queue.add("a");
    queue.add("b");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(queue.metrics().oldest_wait, Duration::from_secs(3));
    assert_eq!(ready(&queue), Some("a"));
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert_eq!(ready(&queue), Some("b"));
    assert_eq!(queue.longest_running(), Some(("a", Duration::from_secs(4))));
    assert_eq!(queue.metrics().longest_work, Duration::from_secs(4));
    queue.done(&"a");
    assert_eq!(queue.longest_running(), Some(("b", Duration::ZERO)));
    queue.done(&"b");
    let durations = queue.durations();
    assert_eq!((durations.wait.sum(), durations.work.sum()), (Duration::from_secs(10), Duration::from_secs(4)));
    assert_eq!((durations.wait.count(), queue.longest_running()), (2, None));
}

#[tokio::test(start_paused = true)]
async fn a_queue_forgets_keys_it_has_nothing_to_know_about() {
    let queue = Queue::default();
    for key in 0..1000 {
        queue.add_rate_limited(key);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let key = ready(&queue).unwrap();
        queue.forget(&key);
        queue.done(&key);
    }
    assert_eq!(queue.core.read(|state| state.slots()), (0, 1));
}
