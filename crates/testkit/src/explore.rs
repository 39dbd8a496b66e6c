//! One test under many seeds: names, jitter, faults and the order of things differ, the outcome must not.

use crate::parallel;

/// Runs a test under each seed, in virtual time, each in a runtime of its own. `PINTLE_SEED=17` runs that seed alone.
///
/// # Panics
///
/// When the test panics under a seed: the message has the seed and the command that runs it again.
pub fn explore<F>(seeds: impl IntoIterator<Item = u64>, test: impl Fn(u64) -> F + Sync)
where
    F: Future<Output = ()>,
{
    if let Err(failure) = try_explore(seeds, test) {
        panic!("{failure}");
    }
}

/// The same with the first failure as an error; how many seeds went well otherwise.
///
/// # Errors
///
/// When the test panics under a seed.
pub fn try_explore<F>(seeds: impl IntoIterator<Item = u64>, test: impl Fn(u64) -> F + Sync) -> Result<usize, String>
where
    F: Future<Output = ()>,
{
    let seeds: Vec<u64> = match parallel::wanted_seed() {
        Some(seed) => vec![seed],
        None => seeds.into_iter().collect(),
    };
    let again = parallel::rerun();
    let results = parallel::each(&seeds, |seed| (*seed, parallel::alone(test(*seed))), |(_, result)| result.is_err());
    for (seed, result) in &results {
        if let Err(message) = result {
            return Err(format!("seed {seed} fails: {message}\n  again: {}", again(*seed)));
        }
    }
    Ok(results.len())
}
