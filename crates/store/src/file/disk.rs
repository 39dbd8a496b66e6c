//! A directory of files, as much of one as the engine needs; the real one, and what tests put in its place.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::OpenError;

/// Bytes of a file that are freed at once.
const PIECE: u64 = 4 << 20;

/// One flat directory. What was written is sure to survive a loss of power once it was synced: a file's bytes by
/// its own `sync`, names by `sync_names`.
pub trait Disk: Send + Sync + 'static {
    fn names(&self) -> io::Result<Vec<String>>;
    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>>;
    /// Makes a file that is not there yet.
    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>>;
    /// Makes durable all bytes of a file that somebody else wrote.
    fn sync(&self, name: &str) -> io::Result<()>;
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    fn sync_names(&self) -> io::Result<()>;
}

/// A file that is written from its beginning to its end.
pub trait DiskFile: Send {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Writes zeros behind the end, which stays where it is. A sync of what is appended in their place has no new
    /// length of the file to write and is faster by half.
    fn prepare(&mut self, length: usize) -> io::Result<()>;
    /// Makes all bytes so far durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A directory of the operating system.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    /// Held for the lock on it; none for who only reads.
    _lock: Option<File>,
    /// Open files that are given up when there are no others: a process that has used up its files still writes its logs.
    spare: Mutex<Vec<File>>,
}

/// Files that the store opens at once: a log, its mark, a state, and a directory to sync.
const SPARE_FILES: usize = 4;

impl Directory {
    /// The directory, made for its owner alone (it holds Secrets) and locked.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Directory { dir: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(path.join("LOCK")).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => {
                let directory = Self { path: path.to_owned(), _lock: Some(file), spare: Mutex::default() };
                directory.refill();
                Ok(directory)
            }
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The directory for reading, also while another has the lock.
    pub(super) fn read_only(path: &Path) -> Self {
        Self { path: path.to_owned(), _lock: None, spare: Mutex::default() }
    }

    /// Opens a file; when the process or the machine has no more of them, in the place of a spare one.
    fn opening<T>(&self, open: impl Fn() -> io::Result<T>) -> io::Result<T> {
        /// ENFILE and EMFILE, for which the standard library has no name.
        const NO_MORE: [Option<i32>; 2] = [Some(23), Some(24)];
        loop {
            match open() {
                Err(error) if NO_MORE.contains(&error.raw_os_error()) => {
                    // Whoever is faster may take the place that becomes free: each try gives up another.
                    if self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().is_none() {
                        return Err(error);
                    }
                }
                result => {
                    self.refill();
                    return result;
                }
            }
        }
    }

    fn refill(&self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        while self._lock.is_some() && spare.len() < SPARE_FILES {
            match File::open(&self.path) {
                Ok(file) => spare.push(file),
                Err(_) => return,
            }
        }
    }
}

impl Disk for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in self.opening(|| std::fs::read_dir(&self.path))? {
            names.extend(item?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(self.opening(|| File::open(self.path.join(name)))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let options = options.create_new(true).write(true).mode(0o600);
        Ok(Box::new(Written::new(self.opening(|| options.open(self.path.join(name)))?)))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        self.opening(|| File::open(self.path.join(name)))?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// A little at a time: a disk that is told of freed blocks holds up syncs for as long as it takes to free them.
    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path.join(name);
        let file = self.opening(|| OpenOptions::new().write(true).open(&path))?;
        let mut length = file.metadata()?.len();
        while length > PIECE {
            length -= PIECE;
            file.set_len(length)?;
        }
        std::fs::remove_file(path)
    }

    fn sync_names(&self) -> io::Result<()> {
        self.opening(|| File::open(&self.path))?.sync_all()
    }
}

/// A file and how far it was written.
pub(super) struct Written {
    file: File,
    end: u64,
}

impl Written {
    pub(super) fn new(file: File) -> Self {
        Self { file, end: 0 }
    }
}

impl DiskFile for Written {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn prepare(&mut self, length: usize) -> io::Result<()> {
        self.file.write_all_at(&vec![0; length], self.end)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_without_files_still_begins_a_log() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Directory::lock(dir.path()).expect("a directory");
        // Files run out for a moment: the spare ones are given up one by one, and taken again.
        let tries = std::cell::Cell::new(SPARE_FILES);
        let opened = disk.opening(|| match tries.replace(tries.get().saturating_sub(1)) {
            0 => Ok(disk.spare.lock().expect("not poisoned").len()),
            _ => Err(io::Error::from_raw_os_error(24)),
        });
        assert_eq!(opened.expect("a spare one was enough"), 0);
        assert_eq!(disk.spare.lock().expect("not poisoned").len(), SPARE_FILES);
        let never = disk.opening(|| -> io::Result<()> { Err(io::Error::from_raw_os_error(24)) });
        assert_eq!(never.expect_err("there are no more").raw_os_error(), Some(24));
    }
}
