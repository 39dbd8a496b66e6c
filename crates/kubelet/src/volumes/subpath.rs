//! Shows a container a part of a volume, and never anything outside it.
//!
//! A container can replace any directory of its volume by a symlink at any moment. So the path is resolved by the kernel,
//! which refuses to leave the volume, into a descriptor; what the descriptor holds is mounted, whatever its name means by
//! then.

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::mounts;
use super::tree::descriptor_path;

/// How often to ask again when names moved while the kernel looked.
const ATTEMPTS: usize = 128;

/// Mounts what `sub_path` means in the volume at `target`; a directory is made if there is nothing.
pub(super) fn expose(volume: &Path, sub_path: &str, target: &Path) -> io::Result<()> {
    // What is made part by part below is not resolved by the kernel, so no part may lead up.
    if sub_path.split('/').any(|part| part == "..") {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "a part of a volume must not be named with '..'"));
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(CWD, volume, flags, Mode::empty())?;
    let found = match resolve(root.as_fd(), sub_path, OFlags::empty()) {
        Err(Errno::NOENT) => make(root.as_fd(), sub_path)?,
        found => found?,
    };
    mount(found.as_fd(), target)
}

fn resolve(root: BorrowedFd<'_>, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..ATTEMPTS {
        match rustix::fs::openat2(root, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), resolve) {
            // The kernel cannot tell whether a `..` stayed inside while something was renamed.
            Err(Errno::AGAIN) => {}
            resolved => return resolved,
        }
    }
    Err(Errno::AGAIN)
}

/// Makes the directories that are missing, each below one that is held open.
fn make(root: BorrowedFd<'_>, path: &str) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(rustix::fs::fstat(root)?.st_mode & 0o7777);
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let mut there = parts.len();
    let mut directory = loop {
        let Some(fewer) = there.checked_sub(1) else { break root.try_clone_to_owned()? };
        there = fewer;
        if there == 0 {
            break root.try_clone_to_owned()?;
        }
        match resolve(root, &parts[..there].join("/"), OFlags::DIRECTORY) {
            Err(Errno::NOENT) => {}
            found => break found?,
        }
    };
    for part in &parts[there..] {
        let made = match rustix::fs::mkdirat(&directory, *part, Mode::from_raw_mode(0o700)) {
            Err(Errno::EXIST) => false,
            made => made.map(|()| true)?,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        directory = rustix::fs::openat(&directory, *part, flags, Mode::empty())?;
        if made {
            // Who may use the volume may use what was made in it.
            rustix::fs::fchmod(&directory, mode)?;
        }
    }
    Ok(directory)
}

fn mount(found: BorrowedFd<'_>, target: &Path) -> io::Result<()> {
    let stat = rustix::fs::fstat(found)?;
    let shows_it =
        || rustix::fs::stat(target).is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino));
    if mounts::is_mounted(target)? {
        if shows_it() {
            return Ok(());
        }
        mounts::unmount(target)?;
    }
    prepare(target, FileType::from_raw_mode(stat.st_mode) == FileType::Directory)?;
    mounts::bind(Path::new(&descriptor_path(found)), target)?;
    if shows_it() {
        return Ok(());
    }
    mounts::unmount(target)?;
    Err(io::Error::other("something else was mounted than was found"))
}

/// What to mount over: a directory over a directory, a file over a file.
fn prepare(target: &Path, is_directory: bool) -> io::Result<()> {
    if let Some(parent) = target.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o750).create(parent)?;
    }
    match fs::symlink_metadata(target) {
        Ok(found) if found.is_dir() == is_directory => return Ok(()),
        Ok(found) if found.is_dir() => fs::remove_dir(target)?,
        Ok(_) => fs::remove_file(target)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    match is_directory {
        true => fs::DirBuilder::new().mode(0o750).create(target),
        false => fs::File::create_new(target).map(drop),
    }
}

#[cfg(test)]
#[path = "subpath_tests.rs"]
mod tests;
