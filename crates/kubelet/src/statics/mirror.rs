//! The mirror of a static Pod: what the API server shows of it. Deleting or changing the mirror does not change the Pod.

use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

/// Where a Pod comes from.
pub(crate) const SOURCE: &str = "kubernetes.io/config.source";
/// The UID that the words of the file make.
pub(crate) const HASH: &str = "kubernetes.io/config.hash";
/// On a mirror: the UID of the Pod that it shows.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The UID of the Pod that this is a mirror of; nothing if it is none.
pub(crate) fn shown_by(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(MIRROR).map(String::as_str)
}

/// Under which UID the runtime knows the Pod.
pub(crate) fn uid_at_runtime(pod: &Pod) -> &str {
    shown_by(pod).or(pod.metadata.uid.as_deref()).unwrap_or_default()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Keep,
    Create,
    Delete,
}

/// What to do about the mirror, from the static Pod of that name and the Pod that the API server has.
pub(crate) fn plan(of_file: Option<&Pod>, known: Option<&Pod>) -> Step {
    let wanted = of_file.filter(|pod| pod.metadata.deletion_timestamp.is_none());
    let shown = known.map(|known| (shown_by(known), known.metadata.deletion_timestamp.is_some()));
    match (of_file, shown) {
        (_, None) => {
            if wanted.is_some() {
                Step::Create
            } else {
                Step::Keep
            }
        }
        // Someone made a Pod of that name; it is not ours to remove.
        (_, Some((None, _))) => Step::Keep,
        (None, Some((Some(_), _))) => Step::Delete,
        // The one that comes to its end is still shown.
        (Some(pod), Some((Some(uid), going))) => {
            let same = pod.metadata.uid.as_deref() == Some(uid);
            if same && (!going || wanted.is_none()) { Step::Keep } else { Step::Delete }
        }
    }
}

/// What is created for a static Pod. It goes with its node.
pub(crate) fn of(pod: &Pod, node: Option<&Node>) -> Pod {
    let mut mirror = pod.clone();
    let meta = &mut mirror.metadata;
    let uid = meta.uid.take().unwrap_or_default();
    meta.annotations.get_or_insert_default().insert(MIRROR.to_owned(), uid);
    meta.owner_references = node.map(|node| {
        vec![OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: node.metadata.name.clone().unwrap_or_default(),
            uid: node.metadata.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        }]
    });
    mirror.status = None;
    mirror
}

/// The static Pod with what the API server shows of it: its status, and the version of that.
pub(crate) fn faced(pod: &Pod, known: Option<&Pod>) -> Pod {
    let mirror = known.filter(|known| shown_by(known).is_some_and(|uid| pod.metadata.uid.as_deref() == Some(uid)));
    let mut faced = pod.clone();
    faced.status = mirror.and_then(|mirror| mirror.status.clone());
    faced.metadata.resource_version = mirror.and_then(|mirror| mirror.metadata.resource_version.clone());
    faced.metadata.creation_timestamp = mirror.and_then(|mirror| mirror.metadata.creation_timestamp.clone());
    faced
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_mirror_follows_the_file_and_nothing_else() {
        let of_file = |uid: &str, going: bool| -> Pod {
            let deleted = going.then_some("2026-11-16T00:00:00Z");
            serde_json::from_value(json!({"metadata": {"uid": uid, "deletionTimestamp": deleted}})).unwrap()
        };
        let mirror = |uid: &str, going: bool| {
            let mut pod = of(&of_file(uid, going), None);
            pod.metadata.uid = Some("m".into());
            pod
        };
        let stranger = of_file("s", false);
        let table = [
            (Some(of_file("a", false)), None, Step::Create),
            (Some(of_file("a", false)), Some(mirror("a", false)), Step::Keep),
            (Some(of_file("a", false)), Some(mirror("a", true)), Step::Delete),
            (Some(of_file("b", false)), Some(mirror("a", false)), Step::Delete),
            (Some(of_file("a", true)), Some(mirror("a", false)), Step::Keep),
            (Some(of_file("a", true)), None, Step::Keep),
            (None, Some(mirror("a", false)), Step::Delete),
            (None, Some(stranger.clone()), Step::Keep),
            (Some(of_file("a", false)), Some(stranger), Step::Keep),
            (None, None, Step::Keep),
        ];
        for (number, (of_file, known, expected)) in table.into_iter().enumerate() {
            assert_eq!(plan(of_file.as_ref(), known.as_ref()), expected, "row {number}");
        }
    }
}
