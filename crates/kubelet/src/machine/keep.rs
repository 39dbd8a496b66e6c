//! Files that the node agent keeps for a container beside its volumes: `/etc/hosts`, its last words, its log's directory.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container as Spec, HostAlias};
use pintle_container::{Mount, Propagation};

use super::Machine;
use crate::make::container::absolute;
use crate::make::{Facts, hosts, sandbox};
use crate::volumes::{is_plain, pod_directory};

const ETC_HOSTS: &str = "/etc/hosts";

/// What is to be written for one run of a container.
pub(super) struct Files {
    pod_directory: PathBuf,
    log_directory: PathBuf,
    container: String,
    attempt: u32,
    hosts: Option<Hosts>,
    /// Where the container writes its last words.
    message_path: Option<String>,
}

enum Hosts {
    Written(String),
    /// On the node's network: the node's own, with these.
    OfNode(Vec<HostAlias>),
}

impl Files {
    pub(super) fn of(machine: &Machine, facts: &Facts<'_>, spec: &Spec, attempt: u32) -> Self {
        let hostname = sandbox::hostname(facts, &machine.cluster_domain);
        let aliases = facts.spec.host_aliases.clone().unwrap_or_default();
        let brings_its_own = spec.volume_mounts.iter().flatten().any(|mount| mount.mount_path == ETC_HOSTS);
        let hosts = match (facts.pod_addresses.as_slice(), facts.on_host_network()) {
            _ if brings_its_own => None,
            ([], _) => None,
            (_, true) => Some(Hosts::OfNode(aliases)),
            (addresses, false) => {
                Some(Hosts::Written(hosts::of_pod(addresses, &hostname.name, &hostname.domain, &aliases)))
            }
        };
        Files {
            pod_directory: pod_directory(&machine.directory, facts.uid()),
            log_directory: sandbox::log_directory(facts, &machine.logs),
            container: spec.name.clone(),
            attempt,
            hosts,
            message_path: spec.termination_message_path.clone().filter(|path| !path.is_empty()),
        }
    }

    pub(super) fn write(self) -> Result<Vec<Mount>, String> {
        if !is_plain(&self.container) {
            return Err(format!("{:?} is no name for a directory", self.container));
        }
        let told = |what: &str, error: io::Error| format!("{what} of container {:?} failed: {error}", self.container);
        log_directory(&self.log_directory.join(&self.container))?;
        let mut mounts = Vec::new();
        if let Some(hosts) = &self.hosts {
            let path = self.pod_directory.join("etc-hosts");
            write_hosts(&path, hosts).map_err(|error| told("writing /etc/hosts", error))?;
            mounts.push(mount(&path, ETC_HOSTS));
        }
        if let Some(message_path) = &self.message_path {
            let path = message_file(&self.pod_directory, &self.container, self.attempt);
            make_message_file(&path).map_err(|error| told("making the termination log", error))?;
            mounts.push(mount(&path, &absolute(message_path)));
            if let Some(old) = self.attempt.checked_sub(2) {
                // Of the run before the last nobody asks any more; that it is there is not sure.
                let _ = fs::remove_file(message_file(&self.pod_directory, &self.container, old));
            }
        }
        Ok(mounts)
    }
}

fn mount(host_path: &Path, container_path: &str) -> Mount {
    Mount {
        host_path: host_path.to_string_lossy().into_owned(),
        container_path: container_path.to_owned(),
        read_only: false,
        propagation: Propagation::Private,
    }
}

/// Where a run of a container leaves its last words.
pub(super) fn message_file(pod_directory: &Path, container: &str, attempt: u32) -> PathBuf {
    pod_directory.join("containers").join(container).join(attempt.to_string())
}

pub(super) fn log_directory(path: &Path) -> Result<(), String> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(|error| format!("the log directory {} cannot be made: {error}", path.display()))
}

pub(super) fn pod_directory_made(path: &Path) -> Result<(), String> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o750).create(path);
    made.map_err(|error| format!("the Pod's directory {} cannot be made: {error}", path.display()))
}

/// Whatever user the container has, it may write there.
fn make_message_file(path: &Path) -> io::Result<()> {
    make_parent(path)?;
    fs::write(path, "")?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))
}

/// Containers have the file itself in their hands: it is written anew only if it differs, and never replaced.
fn write_hosts(path: &Path, hosts: &Hosts) -> io::Result<()> {
    let content = match hosts {
        Hosts::Written(content) => content.clone(),
        Hosts::OfNode(aliases) => hosts::of_node(&String::from_utf8_lossy(&fs::read(ETC_HOSTS)?), aliases),
    };
    // A container may have made it as large as the disk: it is read only if it can be the same.
    let same_length = fs::metadata(path).is_ok_and(|found| usize::try_from(found.len()) == Ok(content.len()));
    if same_length && fs::read(path).is_ok_and(|found| found == content.as_bytes()) {
        return Ok(());
    }
    make_parent(path)?;
    fs::write(path, content)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}

fn make_parent(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| fs::DirBuilder::new().recursive(true).mode(0o750).create(parent))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_container_finds_its_hosts_and_a_place_for_its_last_words() {
        let directory = tempfile::tempdir().unwrap();
        let pod = directory.path().join("pods/7f0c");
        let files = |attempt| Files {
            pod_directory: pod.clone(),
            log_directory: directory.path().join("logs/shop_web-0_7f0c"),
            container: "c".into(),
            attempt,
            hosts: Some(Hosts::Written("10.64.0.5\tweb-0\n".into())),
            message_path: Some("/dev/termination-log".into()),
        };
        let mounts = files(0).write().unwrap();
        let found: Vec<&str> = mounts.iter().map(|mount| mount.container_path.as_str()).collect();
        assert_eq!(found, ["/etc/hosts", "/dev/termination-log"]);
        assert_eq!(fs::read_to_string(&mounts[0].host_path).unwrap(), "10.64.0.5\tweb-0\n");
        assert_eq!(mounts[1].host_path, pod.join("containers/c/0").to_string_lossy());
        assert_eq!(fs::metadata(&mounts[1].host_path).unwrap().mode() & 0o777, 0o666);
        assert!(directory.path().join("logs/shop_web-0_7f0c/c").is_dir());
        let file = fs::metadata(&mounts[0].host_path).unwrap().ino();
        files(1).write().unwrap();
        files(2).write().unwrap();
        assert_eq!(fs::metadata(&mounts[0].host_path).unwrap().ino(), file);
        assert!(!pod.join("containers/c/0").exists() && pod.join("containers/c/1").exists());
        assert!(Files { container: "../c".into(), ..files(0) }.write().is_err());
    }
}
