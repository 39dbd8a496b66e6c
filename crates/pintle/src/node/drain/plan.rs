//! Which Pods of a node must go, which may stay, and which nobody may send away without being asked. No I/O.

use k8s_openapi::api::core::v1::Pod;

/// What the person allows beyond the ordinary.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub(super) struct Allowed {
    /// Leave the Pods of DaemonSets where they are.
    #[arg(long)]
    pub(super) ignore_daemonsets: bool,
    /// Send away Pods with emptyDir volumes too; what is in them is lost.
    #[arg(long)]
    pub(super) delete_emptydir_data: bool,
    /// Send away Pods that no controller makes anew.
    #[arg(long)]
    pub(super) force: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Goes,
    Stays,
    /// And with which flag it would not stand in the way.
    Blocks(&'static str),
}

pub(super) fn fate(pod: &Pod, allowed: Allowed) -> Fate {
    let meta = &pod.metadata;
    let is_mirror = meta.annotations.iter().flatten().any(|(key, _)| key == "kubernetes.io/config.mirror");
    if is_mirror {
        return Fate::Stays;
    }
    // Its volumes are of no use to anybody any more, and nobody makes it anew.
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Fate::Goes;
    }
    let controller = meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true));
    match controller {
        Some(owner) if owner.kind == "DaemonSet" => {
            let blocks = Fate::Blocks("it belongs to a DaemonSet, which would put it back: --ignore-daemonsets");
            return if allowed.ignore_daemonsets { Fate::Stays } else { blocks };
        }
        None if !allowed.force => return Fate::Blocks("no controller would make it anew: --force"),
        _ => {}
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    if !allowed.delete_emptydir_data && volumes.into_iter().any(|volume| volume.empty_dir.is_some()) {
        return Fate::Blocks("what is in its emptyDir would be lost: --delete-emptydir-data");
    }
    Fate::Goes
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn nothing_is_lost_without_being_asked() {
        let pod = |owner: &str, more: Value| -> Pod {
            let mut pod =
                json!({"metadata": {"name": "a", "annotations": {}}, "spec": {"containers": []}, "status": {}});
            if !owner.is_empty() {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "u", "controller": true}]);
            }
            json_patch_merge(&mut pod, &more);
            serde_json::from_value(pod).unwrap()
        };
        let all = Allowed { ignore_daemonsets: true, delete_emptydir_data: true, force: true };
        let cache = json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}});
        let mirror = json!({"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}});
        let ended = json!({"status": {"phase": "Succeeded"}});
        let is_blocked = |pod: &Pod| matches!(fate(pod, Allowed::default()), Fate::Blocks(_));
        assert_eq!(fate(&pod("ReplicaSet", json!({})), Allowed::default()), Fate::Goes);
        for (pod, then) in [
            (pod("", json!({})), Fate::Goes),
            (pod("DaemonSet", json!({})), Fate::Stays),
            (pod("ReplicaSet", cache.clone()), Fate::Goes),
        ] {
            assert!(is_blocked(&pod), "{pod:?}");
            assert_eq!(fate(&pod, all), then, "{pod:?}");
        }
        assert_eq!(fate(&pod("", mirror), Allowed::default()), Fate::Stays);
        assert_eq!(fate(&pod("", ended), Allowed::default()), Fate::Goes);
    }

    fn json_patch_merge(target: &mut Value, patch: &Value) {
        match (target, patch) {
            (Value::Object(target), Value::Object(patch)) => {
                for (key, value) in patch {
                    json_patch_merge(target.entry(key.clone()).or_insert(Value::Null), value);
                }
            }
            (target, patch) => *target = patch.clone(),
        }
    }
}
