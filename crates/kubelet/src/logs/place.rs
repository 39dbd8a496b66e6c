//! Where the logs of a container are: `<logs>/<namespace>_<name>_<uid>/<container>/<attempt>.log`.

use std::io;
use std::path::{Path, PathBuf};

use pintle_container::PodRef;

use crate::make::container::log_path;

/// The log of one run of a container, below the directory of all logs.
pub(crate) fn file(logs: &Path, pod: &PodRef, container: &str, attempt: u32) -> PathBuf {
    logs.join(format!("{}_{}_{}", pod.namespace, pod.name, pod.uid)).join(log_path(container, attempt))
}

/// The parts of a log that were moved away, oldest first: they end with the time at which they were.
pub(crate) async fn rotated(log: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (log.parent(), log.file_name().and_then(|name| name.to_str())) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{name}.");
    let mut entries = match tokio::fs::read_dir(directory).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    while let Some(entry) = entries.next_entry().await? {
        let path = entry.path();
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(&prefix)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}
