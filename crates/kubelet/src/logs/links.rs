//! Links to the logs of containers, by which collectors of logs find them: `containers/<pod>_<namespace>_<container>-<id>.log`.
//!
//! They are in a directory beside that of the logs, as `/var/log/containers` is beside `/var/log/pods`.

use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pintle_container::{ContainerId, PodRef};

use super::place;

const SUFFIX: &str = ".log";

/// The longest name of a file.
const MAX_NAME_BYTES: usize = 255;

fn directory(logs: &Path) -> Option<PathBuf> {
    Some(logs.parent()?.join("containers"))
}

fn name(pod: &PodRef, container: &str, id: &ContainerId) -> String {
    let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
    // Names in the API and identifiers are ASCII.
    let most = MAX_NAME_BYTES - SUFFIX.len();
    if name.len() > most && name.is_char_boundary(most) {
        name.truncate(most);
    }
    name + SUFFIX
}

/// Makes the link to the log of a run.
pub(crate) fn make(logs: &Path, pod: &PodRef, container: &str, attempt: u32, id: &ContainerId) -> io::Result<()> {
    let Some(directory) = directory(logs) else { return Ok(()) };
    std::fs::create_dir_all(&directory)?;
    match symlink(place::file(logs, pod, container, attempt), directory.join(name(pod, container, id))) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// Removes the links to what is not there any more; those that lead elsewhere are not ours.
pub fn prune(logs: &Path) -> io::Result<()> {
    let Some(directory) = directory(logs) else { return Ok(()) };
    let entries = match std::fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let is_ours = std::fs::read_link(&path).is_ok_and(|target| target.starts_with(logs));
        if is_ours && !path.exists() {
            std::fs::remove_file(&path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_of_logs_finds_each_container_and_nothing_that_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let (logs, links) = (root.path().join("pods"), root.path().join("containers"));
        let pod = PodRef { namespace: "shop".into(), name: "web-0".into(), uid: "7f0c".into() };
        let log = logs.join("shop_web-0_7f0c/c/2.log");
        std::fs::create_dir_all(log.parent().unwrap()).unwrap();
        std::fs::write(&log, "line").unwrap();
        let id = ContainerId("abc".into());
        make(&logs, &pod, "c", 2, &id).unwrap();
        make(&logs, &pod, "c", 2, &id).unwrap();
        let link = links.join("web-0_shop_c-abc.log");
        assert_eq!(std::fs::read_to_string(&link).unwrap(), "line");
        symlink("/nowhere", links.join("other.log")).unwrap();
        prune(&logs).unwrap();
        assert!(link.exists());
        std::fs::remove_dir_all(&logs).unwrap();
        prune(&logs).unwrap();
        assert!(!link.is_symlink() && links.join("other.log").is_symlink());
        let long = name(&pod, &"c".repeat(300), &id);
        assert!(long.len() == MAX_NAME_BYTES && long.ends_with(SUFFIX), "{long}");
    }
}
