//! The outside world of this example: a service that keeps one record an At, in a directory.
//!
//! It stands for whatever an operator books elsewhere: a DNS name, a disk, an account. It can be down (put a file named
//! `DOWN` into the directory) and it knows nothing of Kubernetes; if nobody releases a record, it stays for ever.
//!
//! Every call is idempotent, which is what makes crashes harmless: a record is named after the UID of its At.

use std::io::ErrorKind;
use std::path::PathBuf;

use kube::ResourceExt;
use pintle_runtime::Held;

use crate::types::At;

#[derive(Clone, Debug)]
pub struct Cloud {
    directory: PathBuf,
}

#[derive(Debug, thiserror::Error)]
#[error("the cloud does not answer: {0}")]
pub struct Away(String);

impl Cloud {
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Cloud { directory: directory.into() }
    }

    /// Books a record. Asks for proof that the finalizer is on: without it nobody would release the record.
    pub fn reserve(&self, at: &Held<At>) -> Result<(), Away> {
        self.must_be_up()?;
        let content = format!("{}/{} at {}\n", at.namespace().unwrap_or_default(), at.name_any(), at.spec.schedule);
        // Asked again and again; what is booked already is not booked anew.
        if std::fs::read_to_string(self.path_of(at)).is_ok_and(|booked| booked == content) {
            return Ok(());
        }
        std::fs::create_dir_all(&self.directory)
            .and_then(|()| std::fs::write(self.path_of(at), content))
            .map_err(|error| Away(error.to_string()))
    }

    /// Releases a record. One that is not there has been released.
    pub fn release(&self, at: &At) -> Result<(), Away> {
        self.must_be_up()?;
        match std::fs::remove_file(self.path_of(at)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Away(error.to_string())),
            _ => Ok(()),
        }
    }

    fn must_be_up(&self) -> Result<(), Away> {
        match self.directory.join("DOWN").exists() {
            true => Err(Away(format!("{} says DOWN", self.directory.display()))),
            false => Ok(()),
        }
    }

    fn path_of(&self, at: &At) -> PathBuf {
        self.directory.join(at.uid().unwrap_or_default())
    }
}
