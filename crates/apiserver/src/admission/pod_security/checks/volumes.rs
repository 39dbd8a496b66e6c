//! Where the files of a Pod come from.

use super::{Subject, Violation, number, present, quoted, uses, violation};
use pintle_meta::object;
use std::collections::BTreeSet;

/// What hands a Pod nothing of the node.
const ALLOWED: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// All others, in the order in which a volume of several kinds is named.
const OTHERS: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn host_path(pod: &Subject<'_>) -> Option<Violation> {
    let volumes = object::list(pod.spec, &["volumes"]).iter();
    let of_host = volumes.filter(|volume| present(volume, &["hostPath"]).is_some());
    let names: Vec<&str> = of_host.map(|volume| object::text(volume, &["name"])).collect();
    if names.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", number(names.len(), "volume"), quoted(&names)))
}

pub(super) fn restricted(pod: &Subject<'_>) -> Option<Violation> {
    let (mut names, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in object::list(pod.spec, &["volumes"]) {
        let is = |kind: &&&str| present(volume, &[kind]).is_some();
        if !ALLOWED.iter().any(|kind| is(&kind)) {
            names.push(object::text(volume, &["name"]));
            kinds.insert(OTHERS.iter().find(is).copied().unwrap_or("unknown"));
        }
    }
    if names.is_empty() {
        return None;
    }
    let (taking, noun) = (uses(names.len()), number(kinds.len(), "restricted volume type"));
    let volumes = number(names.len(), "volume");
    violation("restricted volume types", format!("{volumes} {} {taking} {noun} {}", quoted(&names), quoted(&kinds)))
}
