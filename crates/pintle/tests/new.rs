//! `pintle new operator`: what it writes is a project that Cargo accepts and, in the long form, that compiles without a
//! warning and passes its own tests; and nobody's files are lost.
//!
//! The sources themselves are `operators/website`, whose tests run with all others.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn new_operator(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pintle"));
    command.args(["new", "operator"]).args(arguments).current_dir(directory).output().expect("pintle starts")
}

/// Cargo in a project, with a target directory that is kept from one run to the next, and without the network.
fn cargo(project: &Path, arguments: &[&str]) -> Output {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target directory").join("new-operator");
    Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--offline")
        .current_dir(project)
        .env("CARGO_TARGET_DIR", target)
        // Nobody debugs it, and nobody edits it: both would only cost space.
        .env("CARGO_PROFILE_DEV_DEBUG", "0")
        .env("CARGO_INCREMENTAL", "0")
        .env_remove("RUSTFLAGS")
        .output()
        .expect("cargo starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn said(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

fn written(directory: &TempDir, arguments: &[&str], name: &str) -> PathBuf {
    let output = new_operator(directory.path(), arguments);
    assert!(output.status.success(), "{}", said(&output));
    let project = directory.path().join(name);
    assert!(said(&output).contains(&format!("cd {name} && cargo test")), "{}", said(&output));
    project
}

/// A project, and its name, with the versions that this repository is built with, which are here.
fn whale(directory: &TempDir, name: &str) -> PathBuf {
    let project = written(directory, &[name, "--group", "sea.example.org", "--pintle", ROOT], name);
    fs::copy(Path::new(ROOT).join("Cargo.lock"), project.join("Cargo.lock")).expect("the lock file");
    project
}

#[test]
fn a_new_operator_is_a_workspace_of_its_own_whose_dependencies_are_found() {
    let directory = tempfile::tempdir().expect("a directory");
    let project = whale(&directory, "blue-whale-operator");
    let resolved = cargo(&project, &["tree", "--depth", "1", "--prefix", "none"]);
    let (tree, here) = (said(&resolved), fs::canonicalize(ROOT).expect("this repository"));
    assert!(resolved.status.success(), "{tree}");
    for expected in ["blue-whale-operator v0.1.0", "pintle-runtime", "pintle-testkit", &here.display().to_string()] {
        assert!(tree.contains(expected), "{tree}");
    }
}

#[test]
#[ignore = "compiles the whole framework anew: `cargo xtask torture new`"]
fn a_new_operator_compiles_without_a_warning_and_passes_its_tests() {
    let count = std::env::var("PINTLE_NEW_OPERATORS").map_or(1, |count| count.parse().expect("a number"));
    for _ in 0..count {
        let directory = tempfile::tempdir().expect("a directory");
        let tested = cargo(&whale(&directory, "blue-whale-operator"), &["test"]);
        assert!(tested.status.success(), "{}", said(&tested));
        assert!(text(&tested.stdout).contains("whatever_crashes_and_whatever_comes_late_the_end_is_the_same ... ok"));
        assert!(!text(&tested.stderr).contains("warning:"), "{}", text(&tested.stderr));
    }
}

#[test]
fn a_directory_with_something_in_it_is_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = directory.path().join("web");
    fs::create_dir(&taken).expect("a directory");
    fs::write(taken.join(".hidden"), "mine").expect("a file");
    let output = new_operator(directory.path(), &["web"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("web is not empty") && said(&output).contains("--path"), "{}", said(&output));
    assert_eq!(fs::read_dir(&taken).expect("the directory").count(), 1);

    let output = new_operator(directory.path(), &["web", "--path", "web/.hidden"]);
    assert_eq!(output.status.code(), Some(2), "a file is no directory");
    assert_eq!(fs::read_to_string(taken.join(".hidden")).expect("the file"), "mine");
}

#[test]
fn what_cannot_work_is_refused_in_words_and_nothing_is_written() {
    let directory = tempfile::tempdir().expect("a directory");
    for (arguments, told) in [
        (&["My_Operator"][..], "cannot be the name of a project"),
        (&["web", "--group", "nodots"], "with a dot"),
        (&["web", "--kind", "web"], "capital letter"),
        (&["web", "--pintle", "/nowhere"], "is no checkout of Pintle"),
    ] {
        let output = new_operator(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(told), "{}", said(&output));
    }
    assert_eq!(fs::read_dir(directory.path()).expect("the directory").count(), 0);
}
