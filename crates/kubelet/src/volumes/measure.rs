//! How much room a tree takes that containers have in their hands, while they change it.
//!
//! No symlink is followed and no mount is entered. What is moved or removed meanwhile is counted or not, and stops nothing.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Stat};

use super::tree::open_directory;

/// The kernel counts room in these, whatever the file system does.
const BLOCK: u64 = 512;

/// One directory is open on each level. What is deeper is not counted.
const DEEPEST: usize = 256;

/// Bytes on the disk, and files.
pub(crate) fn measure(path: &Path) -> io::Result<(u64, u64)> {
    let top: OwnedFd = File::open(path)?.into();
    let mut count = Count::default();
    count.add(&rustix::fs::fstat(&top)?);
    let mut open = vec![Dir::new(top)?];
    while let Some(directory) = open.last_mut() {
        let Some(Ok(entry)) = directory.read() else {
            open.pop();
            continue;
        };
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let Ok(descriptor) = directory.fd() else { continue };
        let Ok(found) = rustix::fs::statat(descriptor, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        count.add(&found);
        if FileType::from_raw_mode(found.st_mode) == FileType::Directory {
            let below = open_directory(descriptor, name).ok().and_then(|below| Dir::new(below).ok());
            if open.len() < DEEPEST {
                open.extend(below);
            }
        }
    }
    Ok((count.bytes, count.inodes))
}

#[derive(Default)]
struct Count {
    bytes: u64,
    inodes: u64,
    /// Files with more than one name, each of which is counted once.
    linked: BTreeSet<(u64, u64)>,
}

impl Count {
    fn add(&mut self, found: &Stat) {
        let is_directory = FileType::from_raw_mode(found.st_mode) == FileType::Directory;
        if !is_directory && found.st_nlink > 1 && !self.linked.insert((found.st_dev, found.st_ino)) {
            return;
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(found.st_blocks).unwrap_or(0).saturating_mul(BLOCK));
        self.inodes += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn every_file_counts_once_and_nothing_outside_does() {
        let directory = tempfile::tempdir().unwrap();
        let (inside, outside) = (directory.path().join("in"), directory.path().join("out"));
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("large"), vec![1; 1 << 20]).unwrap();
        let (empty, _) = measure(&inside).unwrap();
        fs::write(inside.join("a/b/file"), vec![1; 64 << 10]).unwrap();
        fs::hard_link(inside.join("a/b/file"), inside.join("again")).unwrap();
        symlink(&outside, inside.join("link")).unwrap();
        symlink(outside.join("large"), inside.join("a/large")).unwrap();
        // Where the disk has room for it right away; a part is kept in memory until it is written there.
        File::open(inside.join("a/b/file")).unwrap().sync_all().unwrap();
        let (bytes, inodes) = measure(&inside).unwrap();
        assert!((64 << 10..128 << 10).contains(&(bytes - empty)), "{bytes} bytes, {empty} before");
        assert_eq!(inodes, 6, "three directories, one file, two links");
        assert!(measure(&directory.path().join("none")).is_err());
    }

    #[test]
    fn a_tree_deeper_than_the_bound_is_measured_down_to_it() {
        let directory = tempfile::tempdir().unwrap();
        let mut path = directory.path().to_owned();
        for _ in 0..DEEPEST + 20 {
            path.push("d");
        }
        fs::create_dir_all(&path).unwrap();
        let (_, inodes) = measure(directory.path()).unwrap();
        assert_eq!(usize::try_from(inodes).unwrap(), DEEPEST + 1);
    }
}
