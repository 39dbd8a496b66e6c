//! The volumes of Pods on this machine, in the places where upstream's node agent keeps them.
//!
//! First it is decided what a Pod's volumes are to be, from its spec and what the API server has ([`wanted`], no disk);
//! then the disk is made so ([`Volumes::ensure`], again and again without harm).
//!
//! ```text
//! <directory>/pods/<uid>/volumes/kubernetes.io~configmap/<volume>
//! <directory>/pods/<uid>/volume-subpaths/<volume>/<container>/<index>
//! <directory>/pods/<uid>/containers/<container>/<attempt>     termination messages
//! <directory>/pods/<uid>/etc-hosts
//! ```

mod atomic;
mod claim;
mod config_map;
mod downward_api;
mod empty_dir;
mod ensure;
mod files;
mod host_path;
mod measure;
mod mounts;
mod nested;
mod projected;
mod secret;
mod sources;
mod subpath;
mod tokens;
mod tree;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Volume;

pub(crate) use ensure::{Group, Volumes, remove};
pub(crate) use measure::measure;
pub(crate) use sources::Sources;
pub(crate) use subpath::read_file;
pub(crate) use tokens::Tokens;

use crate::make::Facts;
use files::Files;

/// Where each volume of a Pod is, by its name in the spec.
pub(crate) type Mounted = BTreeMap<String, MountedVolume>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountedVolume {
    pub(crate) path: PathBuf,
    /// Whatever a container asks for, it cannot write to it.
    pub(crate) read_only: bool,
}

/// Why a volume is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MountFailure {
    pub(crate) volume: String,
    pub(crate) message: String,
}

impl fmt::Display for MountFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "MountVolume.SetUp failed for volume {:?} : {}", self.volume, self.message)
    }
}

/// What a volume is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Its name in the Pod's spec.
    volume: String,
    /// The kind of volume, as it stands in paths.
    kind: &'static str,
    /// Its name in paths: mostly that in the spec.
    directory: String,
    content: Content,
    read_only: bool,
    /// Directories that other volumes are mounted over.
    places: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Content {
    Empty { medium: Medium },
    Files { files: Files, medium: Medium },
    Host { path: PathBuf, kind: String },
    Bind { source: PathBuf },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Medium {
    Disk,
    Memory { size: Option<u64> },
}

impl Wanted {
    fn new(kind: &'static str, name: &str, content: Content) -> Self {
        let (volume, directory) = (name.to_owned(), name.to_owned());
        Wanted { volume, kind, directory, content, read_only: false, places: Vec::new() }
    }

    fn read_only(self) -> Self {
        Wanted { read_only: true, ..self }
    }
}

/// Whether what is in the volumes can change while the Pod runs.
pub(crate) fn has_changing(facts: &Facts<'_>) -> bool {
    facts.spec.volumes.iter().flatten().any(|volume| {
        volume.config_map.is_some()
            || volume.secret.is_some()
            || volume.projected.is_some()
            || volume.downward_api.is_some()
    })
}

/// What all volumes of a Pod are to be, and which of them cannot be.
pub(crate) fn wanted(facts: &Facts<'_>, sources: &Sources) -> (Vec<Wanted>, Vec<MountFailure>) {
    let (mut all, mut failures) = (Vec::new(), Vec::new());
    for volume in facts.spec.volumes.iter().flatten() {
        match of_volume(volume, facts, sources) {
            Ok(wanted) => all.push(Wanted { places: nested::places(facts.spec, &volume.name), ..wanted }),
            Err(message) => failures.push(MountFailure { volume: volume.name.clone(), message }),
        }
    }
    (all, failures)
}

fn of_volume(volume: &Volume, facts: &Facts<'_>, sources: &Sources) -> Result<Wanted, String> {
    let name = &volume.name;
    if let Some(source) = &volume.config_map {
        config_map::wanted(name, source, sources)
    } else if let Some(source) = &volume.secret {
        secret::wanted(name, source, sources)
    } else if let Some(source) = &volume.projected {
        projected::wanted(name, source, facts, sources)
    } else if let Some(source) = &volume.downward_api {
        downward_api::wanted(name, source, facts)
    } else if let Some(source) = &volume.empty_dir {
        empty_dir::wanted(name, source, facts)
    } else if let Some(source) = &volume.host_path {
        Ok(host_path::wanted(name, source))
    } else if let Some(claim) = claim::name_of(facts, volume) {
        claim::wanted(volume, &claim, facts, sources)
    } else {
        Err("no volume plugin matched: this node can mount configMap, secret, projected, downwardAPI, emptyDir, hostPath \
             and persistentVolumeClaim"
            .to_owned())
    }
}

/// A name that becomes one part of a path and no more.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// Where all that a Pod has on this machine is.
pub(crate) fn pod_directory(directory: &Path, uid: &str) -> PathBuf {
    directory.join("pods").join(uid)
}

#[cfg(test)]
#[path = "../../../../xtask/src/test/skip.rs"]
mod skip;

#[cfg(test)]
pub(crate) mod testing {
    //! Whether tests may do what only root can.

    use std::os::unix::fs::MetadataExt;

    use super::skip::skip;

    /// If not, the test is reported as skipped.
    pub(crate) fn is_root() -> bool {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if !is_root {
            skip(&["root"]);
        }
        is_root
    }
}
