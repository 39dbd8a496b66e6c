//! What the engine keeps when everything around it fails: power cuts, failing operations, flipped bytes, and a
//! crash or an error at every failpoint.
//!
//! The engine's steps are taken one by one as a seed says, so that every run can be repeated:
//! `PINTLE_SEED=7 cargo test -p pintle-store power`. The environment also sets how many runs there are;
//! `cargo xtask torture` runs the long forms.

mod failpoints;
mod faults;
mod flips;
mod power;
mod world;

/// A number from the environment, or the short form's.
fn setting(name: &str, short: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(short)
}
