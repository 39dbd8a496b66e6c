//! What the project does to itself: `cargo xtask tidy | test | bench | torture | conformance`.

mod bench;
mod conformance;
mod containers;
mod debian;
mod etcd;
mod go;
mod kubectl;
mod test;
mod tidy;
mod torture;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "cargo xtask COMMAND

  test    everything that decides whether a change lands: format, tidy, lints, all tests
  tidy    what the compiler does not check: module docs, which crate depends on which, what is absent on purpose
  bench   start a release build and measure it; beside a peer if PINTLE_BENCH_PEER names one;
          `bench store` measures the store alone, beside a loop that appends and syncs;
          `bench queue` the work queue, beside the plainest one; `bench informer` 100,000 Pods in an informer;
          `bench kit` the test kit: starts, a thousand tests, a virtual day;
          `bench admission` what webhooks cost a write, asked and not asked;
          `bench node` how fast Pods start, beside containerd alone (root)
  torture the long form of a test that kills, cuts or corrupts: torture NAME [--count N] [--seed N]
  conformance
          Kubernetes' own conformance suite against a new cluster, compared with the specs that passed before:
          conformance --suite PATH [--images DIR] (root)
";

/// As the program has it, so that what is measured here is what it does there.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let command = std::env::args().nth(1).unwrap_or_default();
    let result = match command.as_str() {
        "test" => test::run(),
        "tidy" => tidy::run(),
        "bench" => bench::run(std::env::args().nth(2).as_deref()),
        "torture" => torture::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        "conformance" => conformance::run(&std::env::args().skip(2).collect::<Vec<_>>()),
        _ => {
            eprint!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask {command}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the checkout.
fn root() -> PathBuf {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.parent().map(PathBuf::from).unwrap_or(here)
}
