//! Makes the disk what a Pod's volumes are to be, and cleans up after the Pod.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use pintle_container::Mount;

use super::files::Files;
use super::{
    Content, Medium, MountFailure, Mounted, MountedVolume, Wanted, atomic, host_path, is_plain, mounts, subpath, tree,
};
use crate::make::Facts;
use crate::make::container::WantedMount;

/// What a volume's directory lets its containers do, unless its files say otherwise.
const OPEN: u32 = 0o777;

/// The volumes of all Pods of this machine. It remembers nothing: all is on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Volumes {
    directory: PathBuf,
}

/// The group that owns a Pod's volumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    id: u32,
    /// Leave a volume alone whose top directory is the group's already.
    trust_top: bool,
}

impl Group {
    pub(crate) fn of(facts: &Facts<'_>) -> Option<Self> {
        let context = facts.spec.security_context.as_ref()?;
        let trust_top = context.fs_group_change_policy.as_deref() == Some("OnRootMismatch");
        Some(Group { id: u32::try_from(context.fs_group?).ok()?, trust_top })
    }
}

impl Volumes {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Volumes { directory }
    }

    fn pod(&self, uid: &str) -> PathBuf {
        super::pod_directory(&self.directory, uid)
    }

    /// Brings every volume into being, or up to date. Those that can be made are, whatever becomes of the others.
    pub(crate) fn ensure(
        &self,
        uid: &str,
        wanted: &[Wanted],
        group: Option<Group>,
        now: Timestamp,
    ) -> Result<Mounted, Vec<MountFailure>> {
        let (mut mounted, mut failures) = (Mounted::new(), Vec::new());
        for wanted in wanted {
            match self.ensure_one(uid, wanted, group, now) {
                Ok(path) => {
                    mounted.insert(wanted.volume.clone(), MountedVolume { path, read_only: wanted.read_only });
                }
                Err(message) => failures.push(MountFailure { volume: wanted.volume.clone(), message }),
            }
        }
        if failures.is_empty() { Ok(mounted) } else { Err(failures) }
    }

    fn ensure_one(&self, uid: &str, wanted: &Wanted, group: Option<Group>, now: Timestamp) -> Result<PathBuf, String> {
        if !is_plain(uid) || !is_plain(&wanted.directory) {
            return Err(format!("{:?} of Pod {uid:?} is no name for a directory", wanted.directory));
        }
        let path = self.pod(uid).join("volumes").join(format!("kubernetes.io~{}", wanted.kind)).join(&wanted.directory);
        let told = |error: io::Error| format!("{}: {error}", path.display());
        match &wanted.content {
            Content::Host { path: on_host, kind } => {
                host_path::check(on_host, kind)?;
                return Ok(on_host.clone());
            }
            Content::Empty { medium } => {
                make_directory(&path, *medium).map_err(told)?;
                // What it holds was made by the Pod itself: once the top is the group's, all of it is.
                give(&path, group.map(|group| Group { trust_top: true, ..group }), false).map_err(told)?;
            }
            Content::Files { files, medium } => {
                make_directory(&path, *medium).map_err(told)?;
                make_places(&path, &wanted.places, files).map_err(told)?;
                atomic::write(&path, files, now, || {
                    give(&path, group.map(|group| Group { trust_top: false, ..group }), true)
                })?;
            }
            Content::Bind { source } => {
                bind_once(source, &path, group)?;
            }
        }
        Ok(path)
    }

    /// Where on the machine a container's mounts are; parts of volumes get mounts of their own.
    pub(crate) fn mounts(&self, uid: &str, wanted: Vec<WantedMount>) -> Result<Vec<Mount>, String> {
        wanted.into_iter().map(|wanted| self.mount(uid, wanted)).collect()
    }

    fn mount(&self, uid: &str, wanted: WantedMount) -> Result<Mount, String> {
        let host_path = match &wanted.sub_path {
            None => wanted.volume_path.clone(),
            Some(sub_path) => {
                let names = [uid, &wanted.volume, &wanted.container];
                let place = names.iter().all(|name| is_plain(name)).then(|| {
                    let below = self.pod(uid).join("volume-subpaths").join(&wanted.volume).join(&wanted.container);
                    below.join(wanted.index.to_string())
                });
                let place = place.ok_or_else(|| format!("{names:?} are no names for directories"))?;
                subpath::expose(&wanted.volume_path, sub_path, &place).map_err(|error| {
                    // The Pod's owner is not told what the machine has outside the volume.
                    tracing::warn!(volume = %wanted.volume, sub_path, %error, "a part of a volume cannot be mounted");
                    format!(
                        "failed to prepare subPath for volumeMount {:?} of container {:?}",
                        wanted.volume, wanted.container
                    )
                })?;
                place
            }
        };
        Ok(Mount {
            host_path: host_path.to_string_lossy().into_owned(),
            container_path: wanted.container_path,
            read_only: wanted.read_only,
            propagation: wanted.propagation,
        })
    }

    /// Unmounts and removes the volumes of a Pod that has ended; what its containers said is kept.
    pub(crate) fn release(&self, uid: &str) -> io::Result<()> {
        let Some(path) = self.found(uid)? else { return Ok(()) };
        mounts::unmount_below(&path)?;
        remove(&path, "volume-subpaths")?;
        remove(&path, "volumes")
    }

    /// Unmounts and removes all that a Pod has on this machine. What its volumes lead to elsewhere stays.
    pub(crate) fn teardown(&self, uid: &str) -> io::Result<()> {
        let Some(path) = self.found(uid)? else { return Ok(()) };
        mounts::unmount_below(&path)?;
        remove(&self.directory.join("pods"), uid)
    }

    /// The directory of a Pod, if it has one.
    fn found(&self, uid: &str) -> io::Result<Option<PathBuf>> {
        if !is_plain(uid) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{uid:?} is no UID of a Pod")));
        }
        let path = self.pod(uid);
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            found => found.map(|_| Some(path)),
        }
    }
}

/// Removes a directory of a Pod by its name, never crossing into anything that is mounted there.
pub(crate) fn remove(parent: &Path, name: &str) -> io::Result<()> {
    let name = CString::new(name)?;
    match fs::File::open(parent) {
        Ok(parent) => tree::remove(parent.as_fd(), &name),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn make_directory(path: &Path, medium: Medium) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, fs::Permissions::from_mode(OPEN))?,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    match medium {
        Medium::Disk => Ok(()),
        Medium::Memory { size } => mounts::memory(path, size),
    }
}

/// A file of the volume may have taken the place: then the runtime says what is wrong.
fn make_places(path: &Path, places: &[String], files: &Files) -> io::Result<()> {
    for place in places {
        let first = place.split('/').next().unwrap_or_default();
        if !files.keys().any(|file| file.split('/').next() == Some(first)) {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(path.join(place))?;
        }
    }
    Ok(())
}

fn give(path: &Path, group: Option<Group>, read_only: bool) -> io::Result<()> {
    let Some(group) = group else { return Ok(()) };
    let top = fs::File::open(path)?;
    if group.trust_top && tree::belongs_to(&rustix::fs::fstat(&top)?, group.id, read_only) {
        return Ok(());
    }
    tree::give_to_group(top.into(), group.id, read_only)
}

/// The group is given a local volume only when it is mounted: a large one takes long.
fn bind_once(source: &Path, path: &Path, group: Option<Group>) -> Result<(), String> {
    let told = |error: io::Error| format!("local volume {}: {error}", source.display());
    if mounts::is_mounted(path).map_err(told)? {
        return Ok(());
    }
    let found = fs::metadata(source).map_err(|error| {
        format!("path {:?} does not exist or cannot be read: {error}", source.display().to_string())
    })?;
    if !found.is_dir() {
        return Err(format!("local volume {} is not a directory, and this node mounts no devices", source.display()));
    }
    make_directory(path, Medium::Disk).map_err(told)?;
    give(source, group, false).map_err(told)?;
    mounts::bind(source, path).map_err(told)
}

#[cfg(test)]
#[path = "ensure_tests.rs"]
mod tests;
