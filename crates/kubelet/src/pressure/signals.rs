//! What a node may run out of, and how much of it is left: read from the machine.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// Something that a node may run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    MemoryAvailable,
    NodefsAvailable,
    NodefsInodesFree,
    ImagefsAvailable,
    ImagefsInodesFree,
    PidAvailable,
}

/// What the node says of itself while it lacks something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    Memory,
    Disk,
    Pid,
}

/// What is taken back from Pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Resource {
    Memory,
    Storage,
    Inodes,
    Pids,
}

impl Signal {
    const ALL: [(Signal, &'static str); 6] = [
        (Signal::MemoryAvailable, "memory.available"),
        (Signal::NodefsAvailable, "nodefs.available"),
        (Signal::NodefsInodesFree, "nodefs.inodesFree"),
        (Signal::ImagefsAvailable, "imagefs.available"),
        (Signal::ImagefsInodesFree, "imagefs.inodesFree"),
        (Signal::PidAvailable, "pid.available"),
    ];

    pub(super) fn named(name: &str) -> Option<Signal> {
        Signal::ALL.into_iter().find(|(_, own)| *own == name).map(|(signal, _)| signal)
    }

    pub(super) fn names() -> String {
        Signal::ALL.map(|(_, name)| name).join(", ")
    }

    pub(super) fn condition(self) -> Condition {
        match self {
            Signal::MemoryAvailable => Condition::Memory,
            Signal::PidAvailable => Condition::Pid,
            _ => Condition::Disk,
        }
    }

    pub(super) fn resource(self) -> Resource {
        match self {
            Signal::MemoryAvailable => Resource::Memory,
            Signal::NodefsAvailable | Signal::ImagefsAvailable => Resource::Storage,
            Signal::NodefsInodesFree | Signal::ImagefsInodesFree => Resource::Inodes,
            Signal::PidAvailable => Resource::Pids,
        }
    }

    pub(super) fn is_of_images(self) -> bool {
        matches!(self, Signal::ImagefsAvailable | Signal::ImagefsInodesFree)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Signal::ALL.into_iter().find(|(signal, _)| signal == self).map(|(_, name)| name);
        formatter.write_str(name.unwrap_or_default())
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Condition::Memory => "MemoryPressure",
            Condition::Disk => "DiskPressure",
            Condition::Pid => "PIDPressure",
        })
    }
}

impl Resource {
    /// As it stands in requests and in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Resource::Memory => "memory",
            Resource::Storage => "ephemeral-storage",
            Resource::Inodes => "inodes",
            Resource::Pids => "pids",
        }
    }
}

/// How much is left of how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    pub(crate) available: u64,
    pub(crate) capacity: u64,
}

/// What could be read; a signal that could not is left out, and nothing is done for it.
pub(crate) type Observations = BTreeMap<Signal, Observation>;

/// All signals of this machine. What the runtime keeps images on is the node's own file system if it does not say.
pub(super) fn read(directory: &Path, images: Option<&Path>) -> Observations {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let mut observations = Observations::new();
    observations.extend(memory().map(|memory| (Signal::MemoryAvailable, memory)));
    let pids = pids(&text("/proc/sys/kernel/pid_max"), &text("/proc/sys/kernel/threads-max"), &text("/proc/loadavg"));
    observations.extend(pids.map(|pids| (Signal::PidAvailable, pids)));
    let disks = [
        (directory, Signal::NodefsAvailable, Signal::NodefsInodesFree),
        (images.unwrap_or(directory), Signal::ImagefsAvailable, Signal::ImagefsInodesFree),
    ];
    for (path, room, inodes) in disks {
        let Ok(told) = rustix::fs::statvfs(path) else { continue };
        let block = told.f_frsize;
        observations.insert(room, Observation { available: told.f_bavail * block, capacity: told.f_blocks * block });
        // Some file systems have as many as are asked for, and say that they have none.
        if told.f_files > 0 {
            observations.insert(inodes, Observation { available: told.f_favail, capacity: told.f_files });
        }
    }
    observations
}

/// What is left beside the working set of all processes: what is used, without the part of the page cache that can go.
fn memory() -> Option<Observation> {
    let total = field(&fs::read_to_string("/proc/meminfo").ok()?, "MemTotal:")?;
    let version_1 = PathBuf::from("/sys/fs/cgroup/memory");
    let (usage, cache) = match fs::read_to_string(version_1.join("memory.usage_in_bytes")) {
        Ok(usage) => {
            let statistics = fs::read_to_string(version_1.join("memory.stat")).ok()?;
            (usage.trim().parse().ok()?, plain(&statistics, "total_inactive_file")?)
        }
        // The root group of version 2 does not count what is used.
        Err(_) => {
            let meminfo = fs::read_to_string("/proc/meminfo").ok()?;
            let statistics = fs::read_to_string("/sys/fs/cgroup/memory.stat").unwrap_or_default();
            let used = total.saturating_sub(field(&meminfo, "MemFree:")?);
            (used, plain(&statistics, "inactive_file").or_else(|| field(&meminfo, "Inactive(file):"))?)
        }
    };
    Some(left(total, usage, cache))
}

fn left(total: u64, usage: u64, cache: u64) -> Observation {
    let working_set = usage.saturating_sub(cache);
    Observation { available: total.saturating_sub(working_set), capacity: total }
}

/// A line of `/proc/meminfo`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// A line of a group's `memory.stat`.
fn plain(statistics: &str, name: &str) -> Option<u64> {
    let line = statistics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// The kernel bounds both numbers of processes and of threads; the load tells how many there are.
fn pids(pid_max: &str, threads_max: &str, load: &str) -> Option<Observation> {
    let most: u64 = pid_max.trim().parse().ok()?;
    let most = threads_max.trim().parse().map_or(most, |threads: u64| most.min(threads));
    let running: u64 = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    Some(Observation { available: most.saturating_sub(running), capacity: most })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_computed_as_upstream_does() {
        assert_eq!(left(1000, 700, 300), Observation { available: 600, capacity: 1000 });
        assert_eq!(left(1000, 7000, 0), Observation { available: 0, capacity: 1000 });
        let expected = Observation { available: 31000, capacity: 32000 };
        assert_eq!(pids("32768\n", "32000\n", "0.1 0.2 0.3 4/1000 12345\n"), Some(expected));
        assert_eq!(pids("", "", ""), None);
        assert_eq!(field("MemFree:  1 kB\nMemTotal:       2 kB\n", "MemTotal:"), Some(2048));
        assert_eq!(plain("inactive_file_x 3\ninactive_file 4\n", "inactive_file"), Some(4));
    }

    #[test]
    fn this_machine_says_what_it_has_left() {
        let directory = tempfile::tempdir().unwrap();
        let read = read(directory.path(), None);
        for signal in [Signal::MemoryAvailable, Signal::NodefsAvailable, Signal::ImagefsAvailable, Signal::PidAvailable]
        {
            let observation = read.get(&signal).unwrap_or_else(|| panic!("{signal} is not known: {read:?}"));
            assert!(observation.available > 0 && observation.available <= observation.capacity, "{signal}");
        }
    }
}
