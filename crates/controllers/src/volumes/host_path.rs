//! Removes what a volume of this machine held.

use std::io;
use std::path::Path;

/// Removes a file or a directory with all that is in it. Links are removed and never followed; one on the way to it that
/// leads out of `/tmp` stops everything.
pub(super) async fn remove(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) => match tokio::fs::canonicalize(parent).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        },
        None => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no parent")),
    };
    if !parent.starts_with(tokio::fs::canonicalize("/tmp").await?) {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "a link on the way to it leads out of /tmp"));
    }
    let removed = match tokio::fs::symlink_metadata(path).await {
        Ok(found) if found.is_dir() => tokio::fs::remove_dir_all(path).await,
        Ok(_) => tokio::fs::remove_file(path).await,
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
