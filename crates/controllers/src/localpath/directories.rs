//! The directories of volumes: made, and removed with what is in them, below one place and nowhere else.
//!
//! A volume's directory has the volume's name. Where a PersistentVolume says that it is does not count: a user who may write one
//! could name any path. Links are never followed: a container may have put them into its volume.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tokio::fs;

use super::LocalVolumes;
use super::plan::is_plain_name;

/// Only root comes in; nodes mount what is below.
const MODE_OF_PLACE: u32 = 0o700;

/// Whoever a container runs as may write.
const MODE_OF_VOLUME: u32 = 0o777;

/// Nothing for simulated nodes: there is no disk.
pub(super) struct Directories(Option<PathBuf>);

impl Directories {
    pub(super) fn of(place: &LocalVolumes) -> Self {
        match place {
            LocalVolumes::Simulated => Directories(None),
            LocalVolumes::Below { directory, .. } => Directories(Some(directory.clone())),
        }
    }

    /// The directory of a volume, empty if it is not there.
    pub(super) async fn make(&self, name: &str) -> io::Result<()> {
        let Some(path) = self.path(name)? else { return Ok(()) };
        if let Some(place) = path.parent() {
            fs::create_dir_all(place).await?;
            fs::set_permissions(place, std::fs::Permissions::from_mode(MODE_OF_PLACE)).await?;
        }
        match fs::create_dir(&path).await {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_directory(&path).await?,
            made => made?,
        }
        fs::set_permissions(&path, std::fs::Permissions::from_mode(MODE_OF_VOLUME)).await
    }

    /// The directory of a volume goes with all that is in it.
    pub(super) async fn remove(&self, name: &str) -> io::Result<()> {
        let Some(path) = self.path(name)? else { return Ok(()) };
        let removed = match is_directory(&path).await {
            Ok(()) => fs::remove_dir_all(&path).await,
            Err(error) => Err(error),
        };
        unless_gone(removed)
    }

    /// The directory goes if nothing is in it.
    pub(super) async fn abandon(&self, name: &str) -> io::Result<()> {
        let Some(path) = self.path(name)? else { return Ok(()) };
        match fs::remove_dir(&path).await {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            removed => unless_gone(removed),
        }
    }

    /// The volumes whose directories have nothing in them.
    pub(super) async fn empty(&self) -> io::Result<Vec<String>> {
        let Some(place) = &self.0 else { return Ok(Vec::new()) };
        let mut entries = match fs::read_dir(place).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut names = Vec::new();
        while let Some(entry) = entries.next_entry().await? {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_empty = entry.file_type().await?.is_dir()
                && is_plain_name(&name)
                && fs::read_dir(entry.path()).await?.next_entry().await?.is_none();
            names.extend(is_empty.then_some(name));
        }
        names.sort();
        Ok(names)
    }

    fn path(&self, name: &str) -> io::Result<Option<PathBuf>> {
        let Some(place) = &self.0 else { return Ok(None) };
        match is_plain_name(name) {
            true => Ok(Some(place.join(name))),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{name:?} is no name of a volume"))),
        }
    }
}

/// An error if it is a link, or anything else.
async fn is_directory(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path).await?.is_dir() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::NotADirectory, format!("{} is no directory", path.display()))),
    }
}

fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
