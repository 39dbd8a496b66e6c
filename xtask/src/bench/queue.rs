//! `cargo xtask bench queue`: keys through the work queue on one core, beside the plainest queue that merges keys.

use anyhow::{Context, Result};
use pintle_runtime::{Key, Queue};
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

const TIME: Duration = Duration::from_secs(1);
const ROUNDS: usize = 3;

pub(crate) async fn bench() -> Result<()> {
    println!("add, get and done of keys such as {}, a second, on one core:\n", key(0));
    println!("| keys waiting | Pintle's queue | VecDeque and HashSet behind a Mutex | ratio |");
    println!("|---|---|---|---|");
    for depth in [1, 100, 10_000] {
        let keys: Vec<Key> = (0..depth).map(key).collect();
        let (mut ours, mut plain) = (0.0f64, 0.0f64);
        for _ in 0..ROUNDS {
            ours = ours.max(through_queue(&keys).await?);
            plain = plain.max(through_plain(&keys)?);
        }
        println!("| {depth} | {ours:.0} | {plain:.0} | {:.2} |", ours / plain);
    }
    Ok(())
}

fn key(number: usize) -> Key {
    Key::new(format!("team-{:02}-production", number % 20), format!("checkout-service-7d9f8b6c5d-{number:05x}"))
}

async fn through_queue(keys: &[Key]) -> Result<f64> {
    let queue = Queue::default();
    let (started, mut count) = (Instant::now(), 0u64);
    while started.elapsed() < TIME {
        // So that the clock is read once for many.
        for _ in 0..(1000 / keys.len()).max(1) {
            for key in keys {
                queue.add(key.clone());
            }
            for _ in keys {
                let key = queue.get().await.context("the queue is open")?;
                queue.done(&key);
                count += 1;
            }
        }
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

/// Merges keys, and nothing else: no waiting, no key kept from a second worker, no classes, no times.
#[derive(Default)]
struct Plain {
    order: VecDeque<Key>,
    present: HashSet<Key>,
}

fn through_plain(keys: &[Key]) -> Result<f64> {
    let queue = Mutex::new(Plain::default());
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let (started, mut count) = (Instant::now(), 0u64);
    while started.elapsed() < TIME {
        for _ in 0..(1000 / keys.len()).max(1) {
            for key in keys {
                let key = key.clone();
                let mut queue = lock();
                if queue.present.insert(key.clone()) {
                    queue.order.push_back(key);
                }
            }
            for _ in keys {
                let key = lock().order.pop_front().context("a key was added")?;
                lock().present.remove(&key);
                count += 1;
            }
        }
    }
    Ok(count as f64 / started.elapsed().as_secs_f64())
}
