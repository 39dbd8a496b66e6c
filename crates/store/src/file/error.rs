//! Why a store could not be opened, told to the person who asked for it.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("cannot use {} as the data directory: {source}; check that it can be written, or choose another --data-dir", dir.display())]
    Directory { dir: PathBuf, source: std::io::Error },
    #[error("another pintle is using {}; stop it or choose another --data-dir", dir.display())]
    Locked { dir: PathBuf },
    #[error("the data in {} has format {found}, and this pintle reads format {expected}; use the pintle that wrote it or choose another --data-dir", dir.display())]
    Format { dir: PathBuf, found: String, expected: u32 },
    #[error("the data in {} is damaged: {file}, {place}, is not what was written; restore a snapshot into another --data-dir", dir.display())]
    Damaged { dir: PathBuf, file: String, place: String },
    #[error("the data in {} cannot be read: {file}: {source}; check the disk, or restore a snapshot into another --data-dir", dir.display())]
    Read { dir: PathBuf, file: String, source: std::io::Error },
    #[error("the store in {} cannot be started: {reason}; make room or check the disk, and start again", dir.display())]
    Failed { dir: PathBuf, reason: String },
}
