//! Many writers at once for a while, and what that showed.

use anyhow::Result;
use std::future::Future;
use std::time::Duration;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50: Duration,
    pub(crate) p99: Duration,
    pub(crate) max: Duration,
}

impl Measured {
    pub(crate) fn of(took: Duration, mut times: Vec<Duration>) -> Measured {
        times.sort_unstable();
        let at = |share: usize| times.get(times.len().saturating_sub(1) * share / 100).copied().unwrap_or_default();
        Measured { per_second: times.len() as f64 / took.as_secs_f64(), p50: at(50), p99: at(99), max: at(100) }
    }
}

/// Each writer is a task that puts one after the other; `put` is given the writer and the number of its put.
pub(crate) async fn writers<Fut>(
    count: usize,
    time: Duration,
    put: impl Fn(usize, usize) -> Fut + Clone + Send + 'static,
) -> Result<Measured>
where
    Fut: Future<Output = Result<()>> + Send,
{
    let started = Instant::now();
    let ends = started + time;
    let mut tasks = Vec::new();
    for writer in 0..count {
        let put = put.clone();
        tasks.push(tokio::spawn(async move {
            let mut times = Vec::new();
            while Instant::now() < ends {
                let began = Instant::now();
                put(writer, times.len()).await?;
                times.push(began.elapsed());
            }
            anyhow::Ok(times)
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    Ok(Measured::of(started.elapsed(), times))
}

/// The one in the middle by its rate.
pub(crate) fn median(mut rounds: Vec<Measured>) -> Option<Measured> {
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let middle = rounds.len() / 2;
    (!rounds.is_empty()).then(|| rounds.swap_remove(middle))
}
