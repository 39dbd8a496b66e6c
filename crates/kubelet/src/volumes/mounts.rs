//! Mounts that a Pod needs on its machine: made once, found again, and taken away.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

/// Whether something is mounted right there.
pub(super) fn is_mounted(path: &Path) -> io::Result<bool> {
    match rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::TYPE) {
        Ok(found) => Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Mounts a file system in memory, if there is none yet. Its content is kept out of swap where the kernel can do that.
pub(super) fn memory(path: &Path, size: Option<u64>) -> io::Result<()> {
    if is_mounted(path)? {
        return Ok(());
    }
    let size = size.map(|size| format!(",size={size}")).unwrap_or_default();
    let attempt = |options: String| {
        let options = CString::new(options).map_err(|_| Errno::INVAL)?;
        rustix::mount::mount("tmpfs", path, "tmpfs", MountFlags::empty(), options.as_c_str())
    };
    match attempt(format!("mode=0777,noswap{size}")) {
        Err(Errno::INVAL) => Ok(attempt(format!("mode=0777{size}"))?),
        mounted => Ok(mounted?),
    }
}

/// Makes what is at `source` visible at `target`, too.
pub(super) fn bind(source: &Path, target: &Path) -> io::Result<()> {
    Ok(rustix::mount::mount_bind(source, target)?)
}

/// Takes away everything that is mounted at a path or below it, the last first.
pub(super) fn unmount_below(path: &Path) -> io::Result<()> {
    // The kernel lists whole paths without symlinks.
    let path = path.canonicalize()?;
    let table = std::fs::read("/proc/self/mountinfo")?;
    let mut below: Vec<PathBuf> = mount_points(&table).into_iter().filter(|point| point.starts_with(&path)).collect();
    below.reverse();
    below.iter().try_for_each(|point| unmount(point))
}

pub(super) fn unmount(path: &Path) -> io::Result<()> {
    match rustix::mount::unmount(path, UnmountFlags::NOFOLLOW) {
        // Not mounted, or not any more: it may have gone with the one above.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => Ok(()),
        // Someone on the machine looks into it. It goes when they do, and until then nothing finds it by its path.
        Err(Errno::BUSY) => Ok(rustix::mount::unmount(path, UnmountFlags::NOFOLLOW | UnmountFlags::DETACH)?),
        Err(error) => Err(error.into()),
    }
}

/// Where everything is mounted, in the order in which it was.
fn mount_points(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescaped).collect()
}

/// The kernel writes spaces and the like as `\040`.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[3..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_found_whatever_its_name() {
        let table = b"22 1 0:20 / / rw - ext4 a rw\n30 22 0:21 / /a\\040b\\134c rw shared:1 - tmpfs tmpfs rw\nodd\n";
        assert_eq!(mount_points(table), [Path::new("/"), Path::new("/a b\\c")]);
    }

    #[test]
    fn mounts_are_made_once_and_all_taken_away() {
        if !super::super::testing::is_root() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let (one, two) = (path.join("one two"), path.join("one two/in"));
        std::fs::create_dir(&one).unwrap();
        memory(&one, Some(1 << 20)).unwrap();
        memory(&one, Some(1 << 20)).unwrap();
        std::fs::create_dir(&two).unwrap();
        bind(&one, &two).unwrap();
        assert!(is_mounted(&one).unwrap() && is_mounted(&two).unwrap() && !is_mounted(&path).unwrap());
        assert!(std::fs::write(one.join("large"), vec![0; 2 << 20]).is_err());
        let _held = std::fs::File::open(&one).unwrap();
        unmount_below(&path).unwrap();
        assert!(!is_mounted(&one).unwrap());
        assert_eq!(std::fs::read_dir(&one).unwrap().count(), 0);
    }
}
