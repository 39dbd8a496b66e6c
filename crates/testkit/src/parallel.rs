//! Many runs, each in a paused runtime of its own, on as many threads as there are processors.

use futures::FutureExt;
use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs every job and returns what each gave, in the order of the jobs. No new job begins after one that `stops`.
pub(crate) fn each<J: Sync, T: Send>(
    jobs: &[J],
    run: impl Fn(&J) -> T + Sync,
    stops: impl Fn(&T) -> bool + Sync,
) -> Vec<T> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len().max(1));
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // A run sees only its own runtime, so that on which thread it is does not matter to it.
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::SeqCst);
                    let Some(job) = jobs.get(index) else { return };
                    let result = run(job);
                    if stops(&result) {
                        next.store(jobs.len(), Ordering::SeqCst);
                    }
                    results.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs a future in virtual time on a runtime of its own; a panic is an error with its message.
pub(crate) fn alone<T>(run: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let runtime = runtime.map_err(|error| format!("no runtime: {error}"))?;
    runtime.block_on(AssertUnwindSafe(run).catch_unwind()).map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic without a message".to_owned())
}

/// How to run the current test again with one seed. Made on the test's own thread, which has the test's name.
pub(crate) fn rerun() -> impl Fn(u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "…".to_owned());
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    move |seed| format!("PINTLE_SEED={seed} cargo test -p {package} {test}")
}

/// The one seed that `PINTLE_SEED` asks for.
pub(crate) fn wanted_seed() -> Option<u64> {
    std::env::var("PINTLE_SEED").ok()?.parse().ok()
}
