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
    #[error("the data in {} is damaged: the value of {key} is not what was written; restore the directory from a backup", dir.display())]
    Corrupt { dir: PathBuf, key: String },
    #[error("the data in {} cannot be read: {source}; check the disk, or restore the directory from a backup", dir.display())]
    Engine { dir: PathBuf, source: Box<dyn std::error::Error + Send + Sync> },
}
