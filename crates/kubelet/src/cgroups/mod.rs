//! The control group of each Pod, below which its containers have theirs: `kubepods/burstable/pod<uid>` and the like.
//!
//! The runtime makes the groups of containers by itself, and those above them without bounds if nobody else did. Here a Pod's own
//! group gets its bounds before its sandbox is made, and goes when nothing of the Pod runs any more. Only the groups of Pods
//! that this node had are touched: others on the machine may use the same tree.

mod plan;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::make::Facts;
use crate::make::resources::{Service, cgroup_parent, class_group};
use crate::volumes::is_plain;
use plan::Bounds;

/// Where the kernel shows its control groups.
const ROOT: &str = "/sys/fs/cgroup";

/// The last process of a group may be seen for a moment after it has ended.
const ATTEMPTS: usize = 20;
const MOMENT: Duration = Duration::from_millis(25);

pub(crate) struct Cgroups {
    root: PathBuf,
    processes: Option<u64>,
    /// It was said that this machine does not let us.
    said: AtomicBool,
}

/// What is to be done for one Pod.
pub(crate) struct Group {
    path: String,
    bounds: Bounds,
}

impl Group {
    pub(crate) fn of(facts: &Facts<'_>, cgroups: &Cgroups) -> Option<Group> {
        is_plain(facts.uid())
            .then(|| Group { path: cgroup_parent(facts), bounds: plan::bounds(facts, cgroups.processes) })
    }
}

/// Removes the control group of a Pod whose sandbox was removed without its node agent.
pub async fn remove_group_of(pod_uid: &str) -> Result<(), String> {
    Arc::new(Cgroups::new(None)).remove(pod_uid).await
}

impl Cgroups {
    pub(crate) fn new(processes: Option<u64>) -> Self {
        Cgroups::at(PathBuf::from(ROOT), processes)
    }

    fn at(root: PathBuf, processes: Option<u64>) -> Self {
        Cgroups { root, processes, said: AtomicBool::new(false) }
    }

    /// Makes a Pod's group with its bounds, or sets them anew. Where the machine does not let us, that is said once.
    pub(crate) fn ensure(&self, group: &Group) {
        let made = if self.is_version_2() { self.ensure_2(group) } else { self.ensure_1(group) };
        let Err((path, error)) = made else { return };
        if !self.said.swap(true, Ordering::Relaxed) {
            let path = path.display();
            tracing::warn!(%path, %error, "Pods are not held to bounds of their own, only their containers: control groups \
                cannot be written here");
        }
    }

    /// Takes away the bounds of a Pod's processors and memory; those of its containers stay.
    pub(crate) fn loosen(&self, group: &Group) {
        let (trees, files) = match self.is_version_2() {
            true => (["", ""], [("cpu.max", "max"), ("memory.max", "max")]),
            false => (["cpu", "memory"], [("cpu.cfs_quota_us", "-1"), ("memory.limit_in_bytes", "-1")]),
        };
        for (tree, (file, value)) in trees.into_iter().zip(files) {
            // Where it cannot be written there were no bounds.
            let _ = write(&below(&self.root.join(tree), &group.path), file, value);
        }
    }

    /// Removes the group of a Pod of which nothing runs any more.
    pub(crate) async fn remove(self: &Arc<Self>, uid: &str) -> Result<(), String> {
        let mut last = String::new();
        for _ in 0..ATTEMPTS {
            let (cgroups, uid) = (self.clone(), uid.to_owned());
            let removed = tokio::task::spawn_blocking(move || cgroups.remove_now(&uid)).await;
            match removed.map_err(io::Error::other).flatten() {
                Ok(()) => return Ok(()),
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(MOMENT).await;
        }
        Err(format!("the Pod's control group could not be removed: {last}"))
    }

    fn remove_now(&self, uid: &str) -> io::Result<()> {
        self.groups(uid).iter().try_for_each(|group| remove_tree(group))
    }

    /// Shares processors out between the classes of Pods that are there.
    pub(crate) fn balance(&self, pods: &[Arc<Pod>], allocatable: &BTreeMap<String, Quantity>) {
        let above = if self.is_version_2() { self.root.clone() } else { self.root.join("cpu") };
        for (class, wanted) in plan::classes(pods, allocatable) {
            let group = below(&above, class_group(class));
            let told = match self.is_version_2() {
                true => ("cpu.weight", plan::weight(wanted).to_string()),
                false => ("cpu.shares", wanted.to_string()),
            };
            // A class without Pods has no group yet, and what is wrong with the others was said when a Pod came.
            if group.is_dir() && fs::read_to_string(group.join(told.0)).is_ok_and(|old| old.trim() != told.1) {
                let _ = write(&group, told.0, &told.1);
            }
        }
    }

    /// Keeps all Pods together from the memory that is reserved for others.
    pub(crate) fn reserve(&self, memory: u64) -> io::Result<()> {
        let all = class_group(Service::Guaranteed);
        let (group, file) = match self.is_version_2() {
            true => (below(&self.root, all), "memory.max"),
            false => (below(&self.root.join("memory"), all), "memory.limit_in_bytes"),
        };
        fs::create_dir_all(&group)?;
        fs::write(group.join(file), memory.to_string())
    }

    /// How many processes a Pod has.
    pub(crate) fn processes(&self, uid: &str) -> u64 {
        let counts = self.groups(uid).into_iter().filter_map(|group| read_number(&group.join("pids.current")));
        counts.max().unwrap_or(0)
    }

    fn is_version_2(&self) -> bool {
        self.root.join("cgroup.controllers").exists()
    }

    /// Wherever a group of that Pod is: in each controller's tree, and below each class.
    fn groups(&self, uid: &str) -> Vec<PathBuf> {
        if !is_plain(uid) {
            return Vec::new();
        }
        let trees = match self.is_version_2() {
            true => vec![self.root.clone()],
            false => fs::read_dir(&self.root).into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
        };
        let classes = [Service::Guaranteed, Service::Burstable, Service::BestEffort].map(class_group);
        let all = trees.iter().flat_map(|tree| classes.map(|class| below(tree, class).join(format!("pod{uid}"))));
        all.filter(|group| group.is_dir()).collect()
    }

    fn ensure_1(&self, group: &Group) -> Result<(), (PathBuf, io::Error)> {
        for (controller, file, value) in plan::version_1(&group.bounds) {
            let tree = self.root.join(controller);
            let own = below(&tree, &group.path);
            if !own.is_dir() {
                fs::create_dir_all(&own).map_err(|error| (own.clone(), error))?;
            }
            write(&own, file, &value)?;
        }
        Ok(())
    }

    fn ensure_2(&self, group: &Group) -> Result<(), (PathBuf, io::Error)> {
        let own = below(&self.root, &group.path);
        if !own.is_dir() {
            fs::create_dir_all(&own).map_err(|error| (own.clone(), error))?;
            // Bounds can be set where the group above hands the controllers down.
            let mut above: Vec<&Path> =
                own.ancestors().skip(1).take_while(|path| path.starts_with(&self.root)).collect();
            above.reverse();
            for directory in above {
                write(directory, "cgroup.subtree_control", "+cpu +memory +pids")?;
            }
        }
        for (file, value) in plan::version_2(&group.bounds) {
            write(&own, file, &value)?;
        }
        Ok(())
    }
}

/// Groups are named by whole paths, of which each tree is the root.
fn below(tree: &Path, group: &str) -> PathBuf {
    tree.join(group.trim_start_matches('/'))
}

fn write(group: &Path, file: &str, value: &str) -> Result<(), (PathBuf, io::Error)> {
    let path = group.join(file);
    fs::write(&path, value).map_err(|error| (path, error))
}

fn read_number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Groups have files that nobody can remove, and go with their directory once they are empty.
fn remove_tree(group: &Path) -> io::Result<()> {
    let children = fs::read_dir(group).into_iter().flatten().flatten();
    for child in children.filter(|child| child.file_type().is_ok_and(|kind| kind.is_dir())) {
        remove_tree(&child.path())?;
    }
    match fs::remove_dir(group) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", group.display())))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    fn files(group: &Path) -> Vec<String> {
        let read = |entry: fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            format!("{name}={}", fs::read_to_string(entry.path()).unwrap())
        };
        let entries = fs::read_dir(group).unwrap().flatten().filter(|entry| entry.file_type().unwrap().is_file());
        let mut files: Vec<String> = entries.map(read).collect();
        files.sort();
        files
    }

    fn ensure(cgroups: &Cgroups, containers: serde_json::Value) {
        let pod = testing::pod(json!({"containers": containers}));
        let allocatable = testing::allocatable();
        cgroups.ensure(&Group::of(&testing::facts(&pod, &allocatable), cgroups).unwrap());
    }

    #[test]
    fn a_pods_group_has_its_bounds_in_each_controllers_tree() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = Cgroups::at(root.path().to_owned(), Some(64));
        let limits = json!({"cpu": "1", "memory": "1Mi"});
        ensure(&cgroups, json!([{"name": "c", "resources": {"requests": limits, "limits": limits}}]));
        let group = |tree: &str| files(&root.path().join(tree).join("kubepods/pod7f0c"));
        assert_eq!(group("cpu"), ["cpu.cfs_period_us=100000", "cpu.cfs_quota_us=100000", "cpu.shares=1024"]);
        assert_eq!(group("memory"), ["memory.limit_in_bytes=1048576"]);
        assert_eq!(group("pids"), ["pids.max=64"]);
        assert_eq!(cgroups.groups("7f0c").len(), 3);
        assert!(cgroups.groups("../..").is_empty() && cgroups.groups("other").is_empty());
    }

    #[test]
    fn where_all_controllers_share_one_tree_they_are_handed_down_to_the_pod() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu memory pids").unwrap();
        let cgroups = Cgroups::at(root.path().to_owned(), Some(64));
        ensure(&cgroups, json!([{"name": "c"}]));
        let handed = "cgroup.subtree_control=+cpu +memory +pids";
        assert_eq!(files(&root.path().join("kubepods")), [handed]);
        assert_eq!(files(&root.path().join("kubepods/besteffort")), [handed]);
        assert_eq!(files(&root.path().join("kubepods/besteffort/pod7f0c")), ["cpu.weight=1", "pids.max=64"]);
        fs::write(root.path().join("kubepods/besteffort/pod7f0c/pids.current"), "3\n").unwrap();
        assert_eq!((cgroups.processes("7f0c"), cgroups.processes("other")), (3, 0));
    }

    #[test]
    fn classes_share_processors_by_what_their_pods_ask_for() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = Cgroups::at(root.path().to_owned(), None);
        let asks = |cpu: &str| json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]});
        let pods = [asks("1"), asks("500m"), json!({"containers": [{"name": "c"}]})];
        let pods = pods.map(|spec| Arc::new(testing::pod(spec)));
        cgroups.balance(&pods, &testing::allocatable());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0, "no group is made for that");
        let shares = |class: &str| root.path().join("cpu/kubepods").join(class).join("cpu.shares");
        for class in ["", "burstable", "besteffort"] {
            fs::create_dir_all(shares(class).parent().unwrap()).unwrap();
            fs::write(shares(class), "1024\n").unwrap();
        }
        cgroups.balance(&pods, &testing::allocatable());
        let read = ["", "burstable", "besteffort"].map(|class| fs::read_to_string(shares(class)).unwrap());
        assert_eq!(read, ["4096", "1536", "2"]);
        cgroups.reserve(1 << 30).unwrap();
        assert_eq!(files(&root.path().join("memory/kubepods")), ["memory.limit_in_bytes=1073741824"]);
    }

    #[tokio::test]
    async fn a_group_goes_with_those_below_it_and_one_that_is_not_there_is_no_trouble() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = Arc::new(Cgroups::at(root.path().to_owned(), None));
        let group = root.path().join("pids/kubepods/burstable/pod7f0c");
        fs::create_dir_all(group.join("container/nested")).unwrap();
        cgroups.remove("7f0c").await.unwrap();
        assert!(!group.exists() && root.path().join("pids/kubepods/burstable").exists());
        cgroups.remove("7f0c").await.unwrap();
    }

    #[test]
    fn a_machine_that_does_not_let_us_says_so_and_goes_on() {
        let root = tempfile::tempdir().unwrap();
        let cgroups = Cgroups::at(root.path().join("none"), None);
        fs::write(root.path().join("none"), "no directory").unwrap();
        ensure(&cgroups, json!([{"name": "c"}]));
        assert!(cgroups.said.load(Ordering::Relaxed));
    }
}
