//! A directory of our own for a cluster that keeps nothing: nobody else can have made it or look into it, and it goes with us.

use std::io;
use std::path::Path;

use tempfile::TempDir;

/// Removed when it is dropped, with all that is mounted below it.
pub(crate) struct Scratch(TempDir);

impl Scratch {
    /// With a name that nobody can guess, for this user alone: names that can be guessed can be taken by others first.
    pub(crate) fn new() -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let private = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("pintle-").permissions(private).tempdir().map(Scratch)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        unmount_below(self.path());
        // The directory itself goes after this.
    }
}

/// Volumes in memory are mounts, and would keep their directory.
fn unmount_below(directory: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut below: Vec<&str> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .filter(|place| Path::new(place).starts_with(directory))
        .collect();
    // The innermost first.
    below.sort_unstable_by(|a, b| b.cmp(a));
    for place in below {
        if let Err(error) = rustix::mount::unmount(place, rustix::mount::UnmountFlags::DETACH) {
            tracing::warn!(place, %error, "it stays mounted");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_ephemeral_cluster_is_nobody_elses_and_leaves_nothing() {
        let (one, other) = (Scratch::new().unwrap(), Scratch::new().unwrap());
        assert_ne!(one.path(), other.path());
        assert!(!one.path().to_string_lossy().contains(&format!("pintle-{}", std::process::id())));
        let mode = std::fs::metadata(one.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let path = one.path().to_owned();
        std::fs::create_dir(path.join("node")).unwrap();
        drop(one);
        assert!(!path.exists());
    }
}
