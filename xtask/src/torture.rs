//! `cargo xtask torture NAME [--count N] [--seed N] [--part TEST]`: the long forms of tests that break things, on a release build.
//!
//! The short form of each runs with all other tests; the environment tells it to go on for longer.

use crate::{kubectl, root};
use anyhow::{Context, Result, bail, ensure};
use std::process::Command;

/// A test that can go on for longer.
struct Suite {
    name: &'static str,
    /// What is done so many times, for the help.
    what: &'static str,
    package: &'static str,
    /// How `cargo test` finds it: the target, and what the test's name contains.
    target: &'static [&'static str],
    filter: &'static str,
    /// The variable that says how many times, and how many times it is if nobody says.
    count: (&'static str, u64),
    /// Whether it calls kubectl.
    kubectl: bool,
}

const SUITES: &[Suite] = &[
    Suite {
        name: "power",
        what: "power cut on a simulated disk that drops, tears and reorders what was not synced",
        package: "pintle-store",
        target: &["--lib"],
        filter: "file::torture::power",
        count: ("PINTLE_POWER_CUTS", 10_000),
        kubectl: false,
    },
    Suite {
        name: "faults",
        what: "life of a store in which the n-th write, sync or rename fails, for every n",
        package: "pintle-store",
        target: &["--lib"],
        filter: "file::torture::faults",
        count: ("PINTLE_FAULT_SEEDS", 20),
        kubectl: false,
    },
    Suite {
        name: "flips",
        what: "flipped byte in the store's files",
        package: "pintle-store",
        target: &["--lib"],
        filter: "file::torture::flips",
        count: ("PINTLE_FLIPS", 10_000),
        kubectl: false,
    },
    Suite {
        name: "histories",
        what: "history of 10,000 operations with crashes, for each engine, checked for linearizability",
        package: "pintle-store",
        target: &["--lib"],
        filter: "history::tests",
        count: ("PINTLE_HISTORIES", 100),
        kubectl: false,
    },
    Suite {
        name: "fuzz",
        what: "case for each part of a request: json, yaml, protobuf, patches, selectors, field_paths, requests",
        package: "pintle-testkit",
        target: &["--test", "fuzz"],
        filter: "",
        count: ("PINTLE_FUZZ_CASES", 1_000_000),
        kubectl: false,
    },
    Suite {
        name: "controllers",
        what: "seed for each built-in loop, whose faults it draws, after a crash at each of its writes",
        package: "pintle-testkit",
        target: &["--test", "builtin"],
        filter: "",
        count: ("PINTLE_CONTROLLER_SEEDS", 1000),
        kubectl: false,
    },
    Suite {
        name: "seeds",
        what: "seed with which a cluster lives twice, under faults: the same revisions, keys and bytes",
        package: "pintle-testkit",
        target: &["--test", "builtin"],
        filter: "seeds::the_same_seed",
        count: ("PINTLE_CONTROLLER_SEEDS", 1000),
        kubectl: false,
    },
    Suite {
        name: "new",
        what: "operator written by `pintle new operator`, compiled and tested outside this repository",
        package: "pintle",
        target: &["--test", "new"],
        filter: "a_new_operator_compiles",
        count: ("PINTLE_NEW_OPERATORS", 1),
        kubectl: false,
    },
    Suite {
        name: "node",
        what: "kill -9 of the node's agent while 30 real Pods run, restart and end (root, containerd)",
        package: "pintle",
        target: &["--test", "real"],
        filter: "kills::",
        count: ("PINTLE_NODE_KILLS", 100),
        kubectl: true,
    },
    Suite {
        name: "subpath",
        what: "try to get out of a volume by swapping a directory for a link while it is mounted (root)",
        package: "pintle-kubelet",
        target: &["--lib"],
        filter: "swapping_a_directory",
        count: ("PINTLE_SUBPATH_SWAPS", 10_000),
        kubectl: false,
    },
    Suite {
        name: "hostile",
        what: "percent of each attack by anonymous clients, beside a neighbour whose waits are measured",
        package: "pintle",
        target: &["--test", "hostile"],
        filter: "",
        count: ("PINTLE_HOSTILE_PERCENT", 100),
        kubectl: true,
    },
    Suite {
        name: "kills",
        what: "kill -9 of a `pintle up` under load from eight clients",
        package: "pintle",
        target: &["--test", "kills"],
        filter: "killed_under_load",
        count: ("PINTLE_KILLS", 200),
        kubectl: true,
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let Some((name, flags)) = arguments.split_first() else { bail!("which one?\n{}", help()) };
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| name == "all" || suite.name == name).collect();
    ensure!(!suites.is_empty(), "there is no suite {name:?}\n{}", help());
    let (mut count, mut seed, mut part) = (None, None, None);
    for pair in flags.chunks(2) {
        match pair {
            [flag, value] if flag == "--count" => count = Some(value.parse().context("--count takes a number")?),
            [flag, value] if flag == "--seed" => seed = Some(value.parse().context("--seed takes a number")?),
            [flag, value] if flag == "--part" => part = Some(value.as_str()),
            _ => bail!("--count N, --seed N and --part NAME are all there is\n{}", help()),
        }
    }
    for suite in suites {
        torture(suite, count, seed, part).with_context(|| suite.name.to_owned())?;
    }
    Ok(())
}

fn torture(suite: &Suite, count: Option<u64>, seed: Option<u64>, part: Option<&str>) -> Result<()> {
    let (variable, default) = suite.count;
    let count = count.unwrap_or(default);
    println!("xtask: {}: {count} × {}", suite.name, suite.what);
    let mut command = Command::new("cargo");
    command
        .args(["test", "--release", "--package", suite.package])
        .args(suite.target)
        .arg(part.unwrap_or(suite.filter));
    command
        .args(["--", "--nocapture", "--include-ignored"])
        .env(variable, count.to_string())
        .env("PINTLE_HISTORY_OPS", "10000");
    if let Some(seed) = seed {
        command.env("PINTLE_SEED", seed.to_string());
    }
    if suite.kubectl {
        command.env("PINTLE_KUBECTL", kubectl::ensure()?);
    }
    let status = command.current_dir(root()).status().context("cargo cannot be started")?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn help() -> String {
    let lines = SUITES.iter().map(|s| format!("  {:<10} {} × {}\n", s.name, s.count.1, s.what));
    format!(
        "cargo xtask torture NAME [--count N] [--seed N] [--part TEST]\n\n{}  {:<10} each in turn\n",
        lines.collect::<String>(),
        "all"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_or_flag_is_answered_with_what_there_is() {
        for arguments in
            [&[][..], &["kils"], &["kills", "--count"], &["kills", "--count", "many"], &["kills", "--x", "1"]]
        {
            let arguments: Vec<String> = arguments.iter().map(|word| (*word).to_owned()).collect();
            assert!(run(&arguments).is_err(), "{arguments:?}");
        }
        assert!(run(&[]).unwrap_err().to_string().contains("kills"));
    }
}
