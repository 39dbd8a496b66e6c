//! The runtime of the cluster that runs on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use pintle_container::Cri;
use tokio::time::Instant;

use super::{Failure, Flags};
use crate::data_dir;
use crate::machine::CONTAINERD;

/// A cluster that has just been started is waited for.
const START: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(50);

/// Below a directory of a cluster.
const SOCKET: &str = "node/containerd/containerd.sock";

/// Connects to the runtime that was named; else to that of the cluster that is kept, or of one that keeps nothing.
pub(super) async fn connect(flags: &Flags) -> Result<(PathBuf, Cri), Failure> {
    let deadline = Instant::now() + START;
    loop {
        let socket = socket(flags)?;
        let is_starting = is_starting(flags);
        let failed = match socket.exists() {
            true => match Cri::connect(&socket).await {
                Ok(cri) => return Ok((socket, cri)),
                Err(error) => Failure::Runtime(error),
            },
            false => Failure::NoRuntime(socket.display().to_string()),
        };
        // A socket that nobody answers behind, or a cluster without one yet: it starts, or it never will.
        if Instant::now() >= deadline || !(socket.exists() || is_starting) {
            return Err(failed);
        }
        tokio::time::sleep(POLL).await;
    }
}

fn socket(flags: &Flags) -> Result<PathBuf, Failure> {
    if let Some(endpoint) = &flags.container_runtime_endpoint {
        return Ok(PathBuf::from(endpoint.strip_prefix("unix://").unwrap_or(endpoint)));
    }
    if let Some(socket) = kept(flags).find(|socket| socket.exists()) {
        return Ok(socket);
    }
    let mut passing = if flags.data_dir.is_none() { passing(&std::env::temp_dir()) } else { Vec::new() };
    match passing.len() {
        // Where there is none, the error names the place where it would be.
        0 => Ok(kept(flags).next().unwrap_or_else(|| PathBuf::from(CONTAINERD))),
        1 => Ok(passing.remove(0)),
        _ => Err(Failure::Several(passing.iter().map(|socket| format!("unix://{}", socket.display())).collect())),
    }
}

fn kept(flags: &Flags) -> impl Iterator<Item = PathBuf> {
    let asked = flags.data_dir.as_ref();
    [data_dir::resolve(asked), data_dir::resolve_node(asked)].into_iter().flatten().map(|data| data.join(SOCKET))
}

/// The directory of the cluster is there, and its containerd is not yet.
fn is_starting(flags: &Flags) -> bool {
    flags.container_runtime_endpoint.is_none() && kept(flags).any(|socket| socket.parent().is_some_and(Path::exists))
}

/// Sockets of clusters that keep nothing.
fn passing(directory: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let own = all.filter(|entry| entry.file_name().to_string_lossy().starts_with("pintle-"));
    let mut found: Vec<PathBuf> = own.map(|entry| entry.path().join(SOCKET)).filter(|socket| socket.exists()).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_of_a_cluster_that_keeps_nothing_is_found() {
        let directory = tempfile::tempdir().unwrap();
        assert!(passing(directory.path()).is_empty());
        for name in ["pintle-a/node/containerd", "other/node/containerd"] {
            std::fs::create_dir_all(directory.path().join(name)).unwrap();
            std::fs::write(directory.path().join(name).join("containerd.sock"), "").unwrap();
        }
        assert_eq!(passing(directory.path()), [directory.path().join("pintle-a").join(SOCKET)]);
    }
}
