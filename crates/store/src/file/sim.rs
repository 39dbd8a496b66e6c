//! A disk that loses power: what was not synced is dropped, torn and reordered, as its seed says.
//!
//! It promises as little as a disk may: bytes survive once their file was synced, names once the directory was.
//! Before that, each sector of 512 bytes that was written may be there or not, or only its beginning; each change of
//! a name may have happened or not. It can also fail, once or from some operation on.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::disk::{Disk, DiskFile};
use crate::chance::Chance;

const SECTOR: usize = 512;

/// A simulated disk. Clones are the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    files: Vec<SimFile>,
    /// What the running system sees.
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    /// Changes of names since the last sync of them, in order.
    pending_names: Vec<Rename>,
    /// No power: every operation fails.
    off: bool,
    operations: [u64; 3],
    fault: Option<Fault>,
    failed: bool,
}

#[derive(Debug, Clone, Default)]
struct SimFile {
    bytes: Vec<u8>,
    /// Where the next bytes go; behind it are zeros at most.
    end: usize,
    /// What is sure to be there when the power is back.
    durable: Vec<u8>,
    /// The sectors in which `bytes` and `durable` may differ.
    dirty: BTreeSet<usize>,
    /// A sync failed: what was not durable then never will be, whatever a later one says.
    lost: bool,
}

/// A name that began or ceased to mean a file, both at once for a file that was renamed.
#[derive(Debug, Clone)]
struct Rename {
    from: Option<String>,
    to: Option<(String, usize)>,
}

/// What an operation does to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Making a file, or appending to it.
    Write = 0,
    /// Of a file or of the names.
    Sync = 1,
    /// A new name for a file, or none.
    Rename = 2,
}

/// The n-th operation of a kind fails, and those after it too: a disk that is full stays full.
#[derive(Debug, Clone, Copy)]
pub struct Fault {
    pub operation: Operation,
    pub nth: u64,
    pub error: Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The operation did nothing.
    Broken,
    /// A write got half way.
    Full,
}

impl Error {
    fn make(self) -> io::Error {
        io::Error::from_raw_os_error(if self == Self::Full { 28 } else { 5 })
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    pub fn new() -> Self {
        Self { inner: Arc::default() }
    }

    /// From now on every operation fails, as for a process that is no more.
    pub fn cut_power(&self) {
        self.lock().off = true;
    }

    /// The disk as it is found when the power is back; this one stays without.
    #[must_use]
    pub fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let mut inner = self.lock();
        inner.off = true;
        let mut names = inner.durable_names.clone();
        // A journal keeps changes in order; not every disk has one.
        let in_order = chance.once_in(2);
        let kept = chance.below(inner.pending_names.len() as u64 + 1);
        for (index, rename) in inner.pending_names.iter().enumerate() {
            if if in_order { (index as u64) < kept } else { chance.once_in(2) } {
                rename.apply(&mut names);
            }
        }
        let files = inner.files.iter().map(|file| file.after_power_cut(chance)).collect();
        let survived = Inner { files, durable_names: names.clone(), names, ..Inner::default() };
        Self { inner: Arc::new(Mutex::new(survived)) }
    }

    /// The disk as another process finds it after the one before was killed: nothing is lost, and nothing that was
    /// not durable has become so.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        let mut inner = self.lock();
        inner.off = true;
        let survived = Inner {
            files: inner.files.clone(),
            names: inner.names.clone(),
            durable_names: inner.durable_names.clone(),
            pending_names: inner.pending_names.clone(),
            ..Inner::default()
        };
        Self { inner: Arc::new(Mutex::new(survived)) }
    }

    /// Makes an operation to come fail.
    pub fn fail(&self, fault: Fault) {
        let mut inner = self.lock();
        inner.fault = Some(fault);
        inner.operations = [0; 3];
    }

    /// How many operations of a kind there were, or since `fail` was called.
    pub fn operations(&self, operation: Operation) -> u64 {
        self.lock().operations[operation as usize]
    }

    /// Whether an operation failed as asked.
    pub fn has_failed(&self) -> bool {
        self.lock().failed
    }

    /// The names and lengths of all files, and a way to change their bytes behind the engine's back.
    pub fn file_lengths(&self) -> Vec<(String, usize)> {
        let inner = self.lock();
        inner.names.iter().map(|(name, file)| (name.clone(), inner.files[*file].bytes.len())).collect()
    }

    /// Changes one byte of a file to another.
    pub fn flip(&self, name: &str, at: usize, with: u8) {
        let mut inner = self.lock();
        if let Some(file) = inner.names.get(name).copied()
            && let Some(byte) = inner.files[file].bytes.get_mut(at)
        {
            *byte ^= with.max(1);
        }
    }

    /// Makes part of a file read as if it had never been written.
    pub fn erase(&self, name: &str, from: usize, length: usize) {
        let mut inner = self.lock();
        if let Some(file) = inner.names.get(name).copied()
            && let Some(bytes) = inner.files[file].bytes.get_mut(from..from + length)
        {
            bytes.fill(0);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SimFile {
    fn write(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        self.bytes.resize(self.bytes.len().max(end), 0);
        self.bytes[self.end..end].copy_from_slice(bytes);
        self.dirty.extend(self.end / SECTOR..end.div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.durable.resize(self.bytes.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let (from, to) = (sector * SECTOR, ((sector + 1) * SECTOR).min(self.bytes.len()));
            self.durable[from..to].copy_from_slice(&self.bytes[from..to]);
        }
    }

    fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let mut bytes = self.durable.clone();
        // How likely a sector is to survive: none, some, most, all.
        let odds = chance.below(4);
        for sector in &self.dirty {
            let (from, to) = (sector * SECTOR, ((sector + 1) * SECTOR).min(self.bytes.len()));
            let survives = match odds {
                0 => false,
                1 => chance.once_in(2),
                2 => !chance.once_in(10),
                _ => true,
            };
            let arrived = if !survives {
                0
            } else if chance.once_in(20) {
                chance.below((to - from) as u64) as usize
            } else {
                to - from
            };
            // The file may have grown, and what it holds there has not arrived.
            let grows = if survives { chance.once_in(2) } else { chance.once_in(8) };
            bytes.resize(bytes.len().max(if grows { to } else { from + arrived }), 0);
            bytes[from..from + arrived].copy_from_slice(&self.bytes[from..from + arrived]);
        }
        Self { end: bytes.len(), durable: bytes.clone(), bytes, ..Self::default() }
    }
}

impl Rename {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, file)) = &self.to {
            names.insert(to.clone(), *file);
        }
    }
}

impl Inner {
    fn check_power(&self) -> io::Result<()> {
        if self.off { Err(io::Error::other("the power is off")) } else { Ok(()) }
    }

    /// Counts an operation; the error if it is to fail.
    fn count(&mut self, operation: Operation) -> Result<(), Error> {
        self.operations[operation as usize] += 1;
        match self.fault {
            Some(fault)
                if self.failed
                    || (fault.operation == operation && self.operations[operation as usize] == fault.nth) =>
            {
                self.failed = true;
                Err(fault.error)
            }
            _ => Ok(()),
        }
    }

    fn rename(&mut self, from: Option<String>, to: Option<(String, usize)>) {
        let rename = Rename { from, to };
        rename.apply(&mut self.names);
        self.pending_names.push(rename);
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for SimDisk {
    fn names(&self) -> io::Result<Vec<String>> {
        let inner = self.lock();
        inner.check_power()?;
        Ok(inner.names.keys().cloned().collect())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        let inner = self.lock();
        inner.check_power()?;
        let bytes = inner.files[inner.find(name)?].bytes.clone();
        Ok(Box::new(io::Cursor::new(bytes)))
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let mut inner = self.lock();
        inner.check_power()?;
        inner.count(Operation::Write).map_err(Error::make)?;
        if inner.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = inner.files.len();
        inner.files.push(SimFile::default());
        inner.rename(None, Some((name.to_owned(), file)));
        Ok(Box::new(OpenFile { disk: self.clone(), file }))
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let file = self.lock().find(name)?;
        OpenFile { disk: self.clone(), file }.sync()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_power()?;
        inner.count(Operation::Rename).map_err(Error::make)?;
        let file = inner.find(from)?;
        inner.rename(Some(from.to_owned()), Some((to.to_owned(), file)));
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_power()?;
        inner.count(Operation::Rename).map_err(Error::make)?;
        inner.find(name)?;
        inner.rename(Some(name.to_owned()), None);
        Ok(())
    }

    fn sync_names(&self) -> io::Result<()> {
        let mut inner = self.lock();
        inner.check_power()?;
        inner.count(Operation::Sync).map_err(Error::make)?;
        inner.durable_names = inner.names.clone();
        inner.pending_names.clear();
        Ok(())
    }
}

struct OpenFile {
    disk: SimDisk,
    file: usize,
}

impl DiskFile for OpenFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.check_power()?;
        let counted = inner.count(Operation::Write);
        let file = &mut inner.files[self.file];
        match counted {
            Ok(()) => {
                file.write(bytes);
                file.end += bytes.len();
            }
            Err(error) => {
                if error == Error::Full {
                    file.write(&bytes[..bytes.len() / 2]);
                }
                return Err(error.make());
            }
        }
        Ok(())
    }

    fn prepare(&mut self, length: usize) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.check_power()?;
        inner.count(Operation::Write).map_err(Error::make)?;
        // As much as shows a difference; a whole megabyte would only make the tests slow.
        inner.files[self.file].write(&vec![0; length.min(8 << 10)]);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut inner = self.disk.lock();
        inner.check_power()?;
        let counted = inner.count(Operation::Sync);
        let file = &mut inner.files[self.file];
        if counted.is_err() {
            file.lost = true;
        }
        counted.map_err(Error::make)?;
        if !file.lost {
            file.sync();
        }
        Ok(())
    }
}
