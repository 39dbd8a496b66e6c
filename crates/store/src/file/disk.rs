//! A directory of files, as much of one as the engine needs; the real one, and what tests put in its place.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

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
}

impl Directory {
    /// The directory, made for its owner alone (it holds Secrets) and locked.
    pub(super) fn lock(path: &Path) -> Result<Self, OpenError> {
        let unusable = |source| OpenError::Directory { dir: path.to_owned(), source };
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(unusable)?;
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let file = options.open(path.join("LOCK")).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: Some(file) }),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { dir: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }

    /// The directory for reading, also while another has the lock.
    pub(super) fn read_only(path: &Path) -> Self {
        Self { path: path.to_owned(), _lock: None }
    }
}

impl Disk for Directory {
    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in std::fs::read_dir(&self.path)? {
            names.extend(item?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        let file = options.create_new(true).write(true).mode(0o600).open(self.path.join(name))?;
        Ok(Box::new(Written::new(file)))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        File::open(self.path.join(name))?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path.join(from), self.path.join(to))
    }

    /// A little at a time: a disk that is told of freed blocks holds up syncs for as long as it takes to free them.
    fn remove(&self, name: &str) -> io::Result<()> {
        let path = self.path.join(name);
        let file = OpenOptions::new().write(true).open(&path)?;
        let mut length = file.metadata()?.len();
        while length > PIECE {
            length -= PIECE;
            file.set_len(length)?;
        }
        std::fs::remove_file(path)
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
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
