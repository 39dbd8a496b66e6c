//! Walks over directories that containers had in their hands: no symlink is followed and no mount is entered.
//!
//! Only one directory is open at a time and nothing recurses, so that a tree of any depth is walked.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Gid, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// Who may do what with files of a volume that belongs to a group.
const READ_WRITE: u32 = 0o660;
const READ_ONLY: u32 = 0o440;
const DIRECTORY: u32 = 0o2110;

/// Removes what is at `name`, with all that is below it. Fails at a mount, with everything below that left as it was.
pub(super) fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    let top = match open_directory(parent, name) {
        Ok(top) => top,
        Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTDIR | Errno::LOOP) => return Ok(rustix::fs::unlinkat(parent, name, AtFlags::empty())?),
        Err(error) => return Err(error.into()),
    };
    let unlink = |directory: BorrowedFd<'_>, name: &CStr| rustix::fs::unlinkat(directory, name, AtFlags::empty());
    let leave = |directory: BorrowedFd<'_>, name: &CStr| rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR);
    walk(top, unlink, leave)?;
    Ok(rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)?)
}

/// Gives a directory and all below it to a group, whose new files will be the group's too.
pub(super) fn give_to_group(top: OwnedFd, group: u32, read_only: bool) -> io::Result<()> {
    // The largest number stands for leaving the group as it is.
    let group = Some(group).filter(|group| *group != u32::MAX).map(Gid::from_raw);
    let group = group.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "fsGroup is out of range"))?;
    let give = |directory: BorrowedFd<'_>, name: &CStr| give(directory, name, group, read_only);
    let root = top.try_clone()?;
    walk(top, give, give)?;
    Ok(give(root.as_fd(), c".")?)
}

/// Whether a directory and what is below it was given to the group before, as far as the directory itself tells.
pub(super) fn belongs_to(stat: &Stat, group: u32, read_only: bool) -> bool {
    let wanted = DIRECTORY | if read_only { READ_ONLY } else { READ_WRITE };
    stat.st_gid == group && stat.st_mode & wanted == wanted
}

fn give(directory: BorrowedFd<'_>, name: &CStr, group: Gid, read_only: bool) -> rustix::io::Result<()> {
    // The file is held by a descriptor: whatever takes its name meanwhile, nothing else is changed.
    let file = rustix::fs::openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let stat = rustix::fs::fstat(&file)?;
    rustix::fs::chownat(&file, c"", None, Some(group), AtFlags::EMPTY_PATH)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    if kind == FileType::Symlink {
        return Ok(());
    }
    let mask = if read_only { READ_ONLY } else { READ_WRITE };
    let mask = if kind == FileType::Directory { mask | DIRECTORY } else { mask };
    rustix::fs::chmod(descriptor_path(file.as_fd()), Mode::from_raw_mode(stat.st_mode & 0o7777 | mask))
}

/// The name under which the kernel shows an open file, whatever has become of its path.
pub(super) fn descriptor_path(file: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

struct Frame {
    name: CString,
    identity: (u64, u64),
    pending: Vec<CString>,
}

/// Calls `on_file` for everything that is no directory, and `on_left` for each directory after all that is in it.
fn walk(
    top: OwnedFd,
    mut on_file: impl FnMut(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
    mut on_left: impl FnMut(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
) -> io::Result<()> {
    let mut current = top;
    let mut frames = vec![enter(&current, CString::default(), &mut on_file)?];
    while let Some(frame) = frames.last_mut() {
        if let Some(child) = frame.pending.pop() {
            let directory = open_directory(current.as_fd(), &child)?;
            frames.push(enter(&directory, child, &mut on_file)?);
            current = directory;
            continue;
        }
        let left = frames.pop();
        let (Some(left), Some(above)) = (left, frames.last()) else { return Ok(()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        current = rustix::fs::openat(&current, c"..", flags, Mode::empty())?;
        if identity(&current)? != above.identity {
            return Err(io::Error::other("a directory was moved while it was walked"));
        }
        on_left(current.as_fd(), &left.name)?;
    }
    Ok(())
}

fn enter(
    directory: &OwnedFd,
    name: CString,
    on_file: &mut impl FnMut(BorrowedFd<'_>, &CStr) -> rustix::io::Result<()>,
) -> io::Result<Frame> {
    let (mut files, mut pending) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        let list = if kind == FileType::Directory { &mut pending } else { &mut files };
        list.push(name.to_owned());
    }
    for file in &files {
        on_file(directory.as_fd(), file)?;
    }
    Ok(Frame { name, identity: identity(directory)?, pending })
}

fn identity(directory: &OwnedFd) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::fstat(directory)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Refuses symlinks, and mounts of any kind.
pub(super) fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use super::*;

    fn open(path: &Path) -> OwnedFd {
        File::open(path).unwrap().into()
    }

    #[test]
    fn what_a_symlink_leads_to_survives_the_volume() {
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        fs::create_dir_all(at("kept")).unwrap();
        fs::write(at("kept/file"), "mine").unwrap();
        fs::create_dir_all(at("volume/a/b")).unwrap();
        fs::write(at("volume/a/file"), "").unwrap();
        symlink(at("kept"), at("volume/a/link")).unwrap();
        symlink("../../kept/file", at("volume/a/b/link")).unwrap();
        let parent = open(directory.path());
        remove(parent.as_fd(), c"volume").unwrap();
        assert!(!at("volume").exists());
        assert_eq!(fs::read_to_string(at("kept/file")).unwrap(), "mine");

        symlink("kept", at("volume")).unwrap();
        remove(parent.as_fd(), c"volume").unwrap();
        assert!(fs::symlink_metadata(at("volume")).is_err() && at("kept/file").exists());
        remove(parent.as_fd(), c"volume").unwrap();
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let parent = open(directory.path());
        let mut current = parent.try_clone().unwrap();
        for _ in 0..2100 {
            rustix::fs::mkdirat(&current, c"d", Mode::from_raw_mode(0o700)).unwrap();
            current = open_directory(current.as_fd(), c"d").unwrap();
        }
        drop(current);
        remove(parent.as_fd(), c"d").unwrap();
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_volume_is_its_groups_and_what_its_links_lead_to_is_not() {
        if !super::super::testing::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let at = |path: &str| directory.path().join(path);
        fs::write(at("outside"), "").unwrap();
        let outside = fs::metadata(at("outside")).unwrap().mode();
        fs::create_dir_all(at("volume/a")).unwrap();
        fs::write(at("volume/a/file"), "").unwrap();
        fs::set_permissions(at("volume/a/file"), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        symlink(at("outside"), at("volume/link")).unwrap();
        give_to_group(open(&at("volume")), 4242, false).unwrap();
        let mode = |path: &str| fs::metadata(at(path)).unwrap().mode() & 0o7777;
        let group = |path: &str| fs::symlink_metadata(at(path)).unwrap().gid();
        assert_eq!([mode("volume"), mode("volume/a"), mode("volume/a/file")], [0o2775, 0o2775, 0o660]);
        assert_eq!(["volume", "volume/a", "volume/a/file", "volume/link"].map(group), [4242; 4]);
        let stat = rustix::fs::stat(at("volume")).unwrap();
        assert!(belongs_to(&stat, 4242, false) && !belongs_to(&stat, 1, false));
        assert_eq!((group("outside"), fs::metadata(at("outside")).unwrap().mode()), (0, outside));
    }
}
