//! Where other volumes are mounted inside a volume that containers cannot write to: the places must be there.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::PodSpec;

use crate::make::containers;

/// Paths below the volume at which some container mounts another one.
pub(super) fn places(spec: &PodSpec, volume: &str) -> Vec<String> {
    let mut places = BTreeSet::new();
    for container in containers(spec) {
        let mounts = || container.volume_mounts.iter().flatten();
        let whole =
            mounts().filter(|mount| mount.name == volume && mount.sub_path.is_none() && mount.sub_path_expr.is_none());
        for outer in whole {
            let outer = format!("{}/", outer.mount_path.trim_end_matches('/'));
            let inner = mounts().filter_map(|inner| inner.mount_path.strip_prefix(&outer));
            let inner = inner.map(|path| path.trim_matches('/').to_owned());
            places.extend(inner.filter(|path| !path.is_empty() && !path.split('/').any(|part| part.starts_with(".."))));
        }
    }
    places.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::make::testing;

    #[test]
    fn a_volume_inside_a_read_only_one_has_a_place() {
        let mount = |name: &str, path: &str| json!({"name": name, "mountPath": path});
        let pod = testing::pod(json!({"containers": [
            {"name": "a", "volumeMounts": [mount("conf", "/etc/conf"), mount("data", "/etc/conf/data/x/"), mount("other", "/etc/config")]},
            {"name": "b", "volumeMounts": [mount("data", "/d"), mount("conf", "/d/conf")]},
        ]}));
        let spec = pod.spec.as_ref().unwrap();
        assert_eq!(places(spec, "conf"), ["data/x"]);
        assert_eq!(places(spec, "data"), ["conf"]);
        assert!(places(spec, "other").is_empty());
    }
}
