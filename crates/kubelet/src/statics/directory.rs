//! The files of static Pods. One that cannot be read is said once, and takes nothing away from the others.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use pintle_runtime::Key;

use super::{StaticPods, shape};

/// A file that is larger says no Pod.
const LARGEST: u64 = 4 << 20;

#[derive(Default)]
pub(super) struct Files {
    /// As they were when they were read last.
    seen: Option<Vec<Seen>>,
    /// What was wrong with which file, so that it is said once.
    complaints: BTreeMap<PathBuf, String>,
    unreadable: Option<String>,
}

impl Files {
    /// What the files say; nothing if they are as they were, or if the directory cannot be read, which does not mean that
    /// it is empty.
    pub(super) async fn read(&mut self, from: &StaticPods, node: &str) -> Option<BTreeMap<Key, Arc<Pod>>> {
        let (directory, reader, node, before) = (from.directory.clone(), from.read, node.to_owned(), self.seen.clone());
        let look = move || {
            let seen = seen(&directory)?;
            let changed = before.as_ref() != Some(&seen);
            Ok::<_, std::io::Error>(changed.then(|| (read(&seen, reader, &node), seen)))
        };
        let read = tokio::task::spawn_blocking(look).await;
        let read = read.map_err(|error| error.to_string()).and_then(|read| read.map_err(|error| error.to_string()));
        let ((said, complaints), seen) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return None,
            Err(error) => {
                if self.unreadable.as_ref() != Some(&error) {
                    let directory = from.directory.display();
                    tracing::error!(%directory, %error, "static Pods stay as they are: their directory cannot be read");
                }
                self.unreadable = Some(error);
                return None;
            }
        };
        (self.unreadable, self.seen) = (None, Some(seen));
        for (path, complaint) in
            complaints.iter().filter(|(path, complaint)| self.complaints.get(*path) != Some(complaint))
        {
            tracing::error!(file = %path.display(), error = %complaint, "this file says no static Pod: correct it, or take it away");
        }
        self.complaints = complaints;
        Some(said)
    }
}

/// Which file, and what tells that another was written in its place.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seen {
    path: PathBuf,
    length: u64,
    place: u64,
    changed: (i64, i64),
}

fn seen(directory: &Path) -> Result<Vec<Seen>, std::io::Error> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        // A file that has just gone is not there; a name that begins with a dot is that of a file that is being written.
        let hidden = path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.'));
        let Some(found) = std::fs::metadata(&path).ok().filter(|found| found.is_file() && !hidden) else { continue };
        let changed = (found.ctime(), found.ctime_nsec());
        all.push(Seen { path, length: found.len(), place: found.ino(), changed });
    }
    all.sort();
    Ok(all)
}

type Read = (BTreeMap<Key, Arc<Pod>>, BTreeMap<PathBuf, String>);

fn read(seen: &[Seen], reader: fn(&str) -> Result<Pod, String>, node: &str) -> Read {
    let (mut said, mut complaints) = (BTreeMap::new(), BTreeMap::new());
    for Seen { path, length, .. } in seen {
        let pod = text(path, *length).and_then(|text| reader(&text)).and_then(|pod| shape::of_node(pod, node));
        match pod {
            Ok(pod) => {
                let key = Key::of(&pod);
                match said.entry(key) {
                    Entry::Vacant(vacant) => drop(vacant.insert(Arc::new(pod))),
                    Entry::Occupied(other) => {
                        complaints.insert(path.clone(), format!("another file says {} already", other.key()));
                    }
                }
            }
            Err(complaint) => {
                complaints.insert(path.clone(), complaint);
            }
        }
    }
    (said, complaints)
}

fn text(path: &Path, length: u64) -> Result<String, String> {
    if length > LARGEST {
        return Err(format!("it has {length} bytes, more than {LARGEST}"));
    }
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}
