//! AlwaysPullImages, off unless asked for: nobody runs an image that is on the node without showing that they may pull it.

use super::{Operation, Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;
use std::collections::HashSet;

const ALWAYS: &str = "Always";
const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

pub struct PullImages;

impl Plugin for PullImages {
    fn concerns(&self, review: &Review<'_>) -> bool {
        matches!(review.operation, Operation::Create | Operation::Update) && review.is_of("", "pods", "")
    }

    fn changes(&self, _: &Review<'_>) -> bool {
        true
    }

    fn mutate<'a>(&'a self, review: &'a Review<'a>, pod: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        if runs_something_new(pod, review.old) {
            pull(pod);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, pod: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        let checked = pod.filter(|pod| runs_something_new(pod, review.old));
        let refused = checked.and_then(|pod| Some(review.forbidden(object::name(pod), &not_pulled(pod)?)));
        Box::pin(std::future::ready(refused.map_or(Ok(()), Err)))
    }
}

fn images(pod: &Value) -> HashSet<&str> {
    let of = |kind: &&str| object::list(pod, &["spec", kind]).iter().map(|one| object::text(one, &["image"]));
    CONTAINERS.iter().flat_map(of).collect()
}

/// An update that brings no image has nothing to pull.
fn runs_something_new(pod: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| !images(pod).is_subset(&images(old)))
}

fn pull(pod: &mut Value) {
    for kind in CONTAINERS {
        for container in list_mut(pod, kind) {
            object::set(container, &["imagePullPolicy"], ALWAYS);
        }
    }
    for volume in list_mut(pod, "volumes") {
        if volume["image"].is_object() {
            object::set(volume, &["image", "pullPolicy"], ALWAYS);
        }
    }
}

fn list_mut<'a>(pod: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = pod.get_mut("spec").and_then(|spec| spec.get_mut(field)).and_then(Value::as_array_mut);
    list.into_iter().flatten()
}

/// Where another policy stands, if one does: what came after this plugin may have set it.
fn not_pulled(pod: &Value) -> Option<String> {
    let of_containers = CONTAINERS.iter().flat_map(|kind| {
        let containers = object::list(pod, &["spec", kind]).iter().enumerate();
        containers.map(move |(at, one)| {
            (format!("spec.{kind}[{at}].imagePullPolicy"), object::text(one, &["imagePullPolicy"]).to_owned())
        })
    });
    let volumes =
        object::list(pod, &["spec", "volumes"]).iter().enumerate().filter(|(_, one)| one["image"].is_object());
    let of_volumes = volumes.map(|(at, one)| {
        (format!("spec.volumes[{at}].image.pullPolicy"), object::text(one, &["image", "pullPolicy"]).to_owned())
    });
    let (field, policy) = of_containers.chain(of_volumes).find(|(_, policy)| policy != ALWAYS)?;
    Some(format!("{field}: Unsupported value: {policy:?}: supported values: {ALWAYS:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_container_and_image_volume_is_pulled_and_a_change_back_is_refused() {
        let mut pod = json!({"spec": {
            "initContainers": [{"name": "i", "image": "a", "imagePullPolicy": "Never"}],
            "containers": [{"name": "c", "image": "b"}],
            "volumes": [{"name": "v", "image": {"reference": "d"}}, {"name": "w", "emptyDir": {}}],
        }});
        let before = pod.clone();
        assert!(runs_something_new(&pod, None) && !runs_something_new(&pod, Some(&before)));
        assert!(not_pulled(&pod).is_some());
        pull(&mut pod);
        assert_eq!(not_pulled(&pod), None);
        assert_eq!(pod["spec"]["volumes"][1], json!({"name": "w", "emptyDir": {}}));
        pod["spec"]["containers"][0]["imagePullPolicy"] = "IfNotPresent".into();
        let why = not_pulled(&pod).unwrap();
        assert!(why.starts_with("spec.containers[0].imagePullPolicy: Unsupported value: \"IfNotPresent\""), "{why}");
    }
}
