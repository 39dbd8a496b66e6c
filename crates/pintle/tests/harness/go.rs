//! Programs and tests in Go, built in the test's own directory; skipped where that cannot be done.

#[path = "../../../../xtask/src/test/skip.rs"]
mod skip;

use super::harness::PATIENCE;
use super::harness::program::Place;
use std::path::{Path, PathBuf};
use std::process::Output;
use tokio::process::Command;

/// Compiling client-go takes minutes where nothing of it is cached.
const COMPILE_PATIENCE_FACTOR: u32 = 15;

/// Runs the go command in a directory, with these variables beside the usual.
pub async fn go(directory: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new("go");
    command.args(arguments).current_dir(directory).envs(variables.iter().copied()).kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE * COMPILE_PATIENCE_FACTOR, command.output()).await;
    ended.expect("it ends").expect("it starts")
}

/// A copy of a module, with what it depends on downloaded; nothing if that cannot be done here.
pub async fn module(place: &Place, sources: &Path) -> Option<PathBuf> {
    if Command::new("go").arg("version").output().await.is_err() {
        skip::skip(&["go"]);
        return None;
    }
    let directory = place.path(&sources.file_name().expect("a folder").to_string_lossy());
    copy(sources, &directory);
    if !go(&directory, &["mod", "download"], &[]).await.status.success() {
        skip::skip(&["the Go module proxy"]);
        return None;
    }
    Some(directory)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a directory");
    for entry in std::fs::read_dir(from).expect("a folder of the module") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        match entry.file_type().expect("a type").is_dir() {
            true => copy(&entry.path(), &target),
            false => _ = std::fs::copy(entry.path(), &target).expect("a file of the module"),
        }
    }
}
