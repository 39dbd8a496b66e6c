//! Which Pod has which address: a file each, named after the address, in the form that the plugin `host-local` knows. Behind the
//! two lines of that form stand the ports of the node that lead to the Pod.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use super::config::Mapping;
use crate::address::{OfFamily, Range};

#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct BooksError {
    path: PathBuf,
    source: io::Error,
}

/// Who has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub container: String,
    pub interface: String,
    pub ports: Vec<Mapping>,
}

#[derive(Clone, Debug)]
pub struct Books {
    directory: PathBuf,
}

/// Nobody else changes the books while this is held.
pub(super) struct Locked {
    books: Books,
    _lock: File,
}

impl Books {
    /// Below this directory; nothing is made yet.
    pub fn new(directory: &Path) -> Self {
        Books { directory: directory.join("pintle") }
    }

    pub(super) fn lock(&self) -> Result<Locked, BooksError> {
        let path = self.directory.join("lock");
        let failed = |error| BooksError { path: path.clone(), source: error };
        fs::create_dir_all(&self.directory).map_err(failed)?;
        let lock = File::create(&path).map_err(failed)?;
        rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).map_err(|errno| failed(errno.into()))?;
        Ok(Locked { books: self.clone(), _lock: lock })
    }

    /// All addresses that somebody has. A file that cannot be read holds its address too.
    pub fn all(&self) -> BTreeMap<IpAddr, Held> {
        let files = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let held = files.filter_map(|file| {
            let address: IpAddr = file.file_name().to_str()?.parse().ok()?;
            Some((address, parse(&fs::read_to_string(file.path()).unwrap_or_default())))
        });
        held.collect()
    }

    /// Addresses that somebody has and that are in none of these ranges.
    pub fn outside(&self, ranges: &[Range]) -> Vec<IpAddr> {
        let is_outside = |address: &IpAddr| !ranges.iter().any(|range| range.contains(*address));
        self.all().into_keys().filter(is_outside).collect()
    }

    fn last(&self, range: &Range) -> PathBuf {
        self.directory.join(format!("last_reserved_ip.{}", range.family().word()))
    }
}

fn parse(text: &str) -> Held {
    let mut lines = text.lines().map(str::trim);
    let mut next = || lines.next().unwrap_or_default().to_owned();
    let (container, interface, ports) = (next(), next(), next());
    Held { container, interface, ports: serde_json::from_str(&ports).unwrap_or_default() }
}

impl Locked {
    /// Gives the next free address of a range, round and round: one that was just given back is not given out at once.
    pub fn take(&self, range: &Range, held: &Held) -> Result<Option<IpAddr>, BooksError> {
        let taken = self.books.all();
        let last = fs::read_to_string(self.books.last(range)).ok().and_then(|text| text.trim().parse().ok());
        let Some(address) = range.next_free(last, |address| taken.contains_key(&address)) else { return Ok(None) };
        let ports = serde_json::to_string(&held.ports).unwrap_or_default();
        let text = format!("{}\r\n{}\r\n{ports}\n", held.container, held.interface);
        write(&self.books.directory.join(address.to_string()), &text)?;
        write(&self.books.last(range), &address.to_string())?;
        Ok(Some(address))
    }

    /// Takes back what a container has, and says what that was. `None` for the interface means all of them.
    pub fn give_back(&self, container: &str, interface: Option<&str>) -> Result<Vec<(IpAddr, Held)>, BooksError> {
        let is_meant = |held: &Held| held.container == container && interface.is_none_or(|one| held.interface == one);
        let own: Vec<_> = self.books.all().into_iter().filter(|(_, held)| is_meant(held)).collect();
        for (address, _) in &own {
            let path = self.books.directory.join(address.to_string());
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(BooksError { path, source: error });
                }
                _ => {}
            }
        }
        Ok(own)
    }
}

/// Whole or not at all.
fn write(path: &Path, text: &str) -> Result<(), BooksError> {
    let failed = |error| BooksError { path: path.to_owned(), source: error };
    let temporary = path.with_extension("new");
    let mut file = File::create(&temporary).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| fs::rename(&temporary, path)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_given_once_and_the_last_one_given_back_comes_last() {
        let directory = tempfile::tempdir().unwrap();
        let books = Books::new(directory.path());
        let range: Range = "10.9.0.0/29".parse().unwrap();
        let take = |container: &str| {
            let held = Held { container: container.to_owned(), interface: "eth0".to_owned(), ports: Vec::new() };
            books.lock().unwrap().take(&range, &held).unwrap().map(|address| address.to_string())
        };
        let first: Vec<_> = ["a", "b", "c"].map(take).into_iter().flatten().collect();
        assert_eq!(first, ["10.9.0.2", "10.9.0.3", "10.9.0.4"], "the first is the bridge's");
        let back = books.lock().unwrap().give_back("a", Some("eth0")).unwrap();
        assert_eq!(back.len(), 1);
        assert!(books.lock().unwrap().give_back("a", Some("eth0")).unwrap().is_empty(), "twice is once");
        let then: Vec<_> = ["d", "e", "f"].map(take).into_iter().flatten().collect();
        assert_eq!(then, ["10.9.0.5", "10.9.0.6", "10.9.0.2"], "the last of a range is its broadcast address");
        assert_eq!(take("g"), None, "all are taken");
    }

    #[test]
    fn addresses_that_host_local_gave_are_known() {
        let directory = tempfile::tempdir().unwrap();
        let books = Books::new(directory.path());
        std::fs::create_dir_all(directory.path().join("pintle")).unwrap();
        std::fs::write(directory.path().join("pintle/10.9.0.2"), "abc\r\neth0").unwrap();
        let all = books.all();
        assert_eq!(all[&"10.9.0.2".parse().unwrap()].container, "abc");
        assert_eq!(books.lock().unwrap().give_back("abc", Some("eth0")).unwrap().len(), 1);
        assert!(books.all().is_empty());
    }
}
