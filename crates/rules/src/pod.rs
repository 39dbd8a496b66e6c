//! What a Pod requests, what limits it, how it fares when memory runs short, and whether it still counts.

use crate::Amounts;
use crate::resources::{CPU, MEMORY, is_for_whole_pods};
use jiff::{SignedDuration, Timestamp};
use pintle_meta::object;
use serde_json::Value;

/// How a Pod fares when memory runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    Guaranteed,
    Burstable,
    BestEffort,
}

impl Quality {
    pub fn name(self) -> &'static str {
        match self {
            Quality::Guaranteed => "Guaranteed",
            Quality::Burstable => "Burstable",
            Quality::BestEffort => "BestEffort",
        }
    }
}

/// From what its containers, or the Pod as a whole, request and limit.
pub fn quality(pod: &Value) -> Quality {
    let whole = object::at(pod, &["spec", "resources"]).filter(|whole| !whole.is_null());
    let all: Vec<&Value> = match whole {
        Some(whole) => vec![whole],
        None => containers(pod).chain(init_containers(pod)).map(|container| &container["resources"]).collect(),
    };
    let (mut any, mut guaranteed) = (false, true);
    for resources in all {
        for name in [CPU, MEMORY] {
            let amount = |of: &str| Amounts::of(resources.get(of)).get(name).filter(|amount| !amount.is_zero());
            let (request, limit) = (amount("requests"), amount("limits"));
            any |= request.is_some() || limit.is_some();
            guaranteed &= limit.is_some() && request.is_none_or(|request| limit == Some(request));
        }
    }
    match (any, guaranteed) {
        (false, _) => Quality::BestEffort,
        (true, true) => Quality::Guaranteed,
        (true, false) => Quality::Burstable,
    }
}

/// Whether the status of a Pod counts beside its spec: what a resize has granted, and what the node has done of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    Spec,
    SpecAndStatus,
}

/// What the Pod requests, all containers together and at any time of its life, with the overhead of its runtime.
pub fn requests(pod: &Value, look: Look) -> Amounts {
    let mut requests = aggregate(pod, "requests", look);
    override_with_whole(pod, "requests", &mut requests);
    requests.add(&Amounts::of(object::at(pod, &["spec", "overhead"])));
    requests
}

/// What limits the Pod. The overhead belongs to limits that there are.
pub fn limits(pod: &Value, look: Look) -> Amounts {
    let mut limits = aggregate(pod, "limits", look);
    override_with_whole(pod, "limits", &mut limits);
    let overhead = Amounts::of(object::at(pod, &["spec", "overhead"]));
    limits.add(&overhead.only(|name| limits.get(name).is_some_and(|limit| !limit.is_zero())));
    limits
}

/// The sum over the containers of one side, `requests` or `limits`, of their resources. Init containers run before the
/// others, one at a time; those that restart always run on beside all that follow.
pub fn aggregate(pod: &Value, side: &str, look: Look) -> Amounts {
    let mut sum = Amounts::default();
    containers(pod).for_each(|container| sum.add(&effective(pod, container, "containerStatuses", side, look)));
    let (mut sidecars, mut most) = (Amounts::default(), Amounts::default());
    for container in init_containers(pod) {
        if is_sidecar(container) {
            let own = effective(pod, container, "initContainerStatuses", side, look);
            sum.add(&own);
            sidecars.add(&own);
            most.raise_to(&sidecars);
        } else {
            let mut own = Amounts::of(object::at(container, &["resources", side]));
            own.add(&sidecars);
            most.raise_to(&own);
        }
    }
    sum.raise_to(&most);
    sum
}

/// What is asked for the Pod as a whole takes the place of what its containers ask for together.
pub fn override_with_whole(pod: &Value, side: &str, amounts: &mut Amounts) {
    let whole = Amounts::of(object::at(pod, &["spec", "resources", side]));
    whole.iter().filter(|(name, _)| is_for_whole_pods(name)).for_each(|(name, amount)| amounts.set(name, amount));
}

/// Does it ask for anything as a whole?
pub fn has_whole(pod: &Value) -> bool {
    ["requests", "limits"].iter().any(|side| {
        let whole = object::at(pod, &["spec", "resources", side]).and_then(Value::as_object);
        whole.into_iter().flatten().any(|(name, _)| is_for_whole_pods(name))
    })
}

pub fn containers(pod: &Value) -> std::slice::Iter<'_, Value> {
    object::list(pod, &["spec", "containers"]).iter()
}

pub fn init_containers(pod: &Value) -> std::slice::Iter<'_, Value> {
    object::list(pod, &["spec", "initContainers"]).iter()
}

/// An init container that runs on beside the others.
pub fn is_sidecar(container: &Value) -> bool {
    object::text(container, &["restartPolicy"]) == "Always"
}

/// Nothing of it runs any more, or should by now.
pub fn has_ended(pod: &Value, now: Timestamp) -> bool {
    if matches!(object::text(pod, &["status", "phase"]), "Failed" | "Succeeded") {
        return true;
    }
    let deleted: Option<Timestamp> = object::text(pod, &["metadata", "deletionTimestamp"]).parse().ok();
    let grace = object::integer(pod, &["metadata", "deletionGracePeriodSeconds"]);
    let ends = deleted.zip(grace).and_then(|(at, grace)| at.checked_add(SignedDuration::from_secs(grace)).ok());
    ends.is_some_and(|ends| now > ends)
}

/// What a container asks for, or has still got while a resize is under way.
fn effective(pod: &Value, container: &Value, statuses: &str, side: &str, look: Look) -> Amounts {
    let asked = Amounts::of(object::at(container, &["resources", side]));
    if look == Look::Spec {
        return asked;
    }
    let name = object::text(container, &["name"]);
    let mut all = object::list(pod, &["status", statuses]).iter();
    let Some(status) =
        all.find(|s| object::text(s, &["name"]) == name && s.get("resources").is_some_and(|r| !r.is_null()))
    else {
        return asked;
    };
    let mut granted = Amounts::of(object::at(status, &["resources", side]));
    if side == "requests" {
        granted.raise_to(&Amounts::of(status.get("allocatedResources")));
    }
    if !is_infeasible(pod) {
        granted.raise_to(&asked);
    }
    granted
}

/// The node has said that the resize that was asked for can never be.
fn is_infeasible(pod: &Value) -> bool {
    let mut conditions = object::list(pod, &["status", "conditions"]).iter();
    let pending = conditions.find(|condition| object::text(condition, &["type"]) == "PodResizePending");
    pending.is_some_and(|condition| object::text(condition, &["reason"]) == "Infeasible")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn container(resources: Value) -> Value {
        json!({"name": "c", "resources": resources})
    }

    #[test]
    fn init_containers_count_only_where_they_need_more() {
        let pod = json!({"spec": {
            "containers": [container(json!({"requests": {"cpu": "1"}})), container(json!({"requests": {"cpu": "500m"}}))],
            "initContainers": [
                container(json!({"requests": {"cpu": "1"}})),
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "200m"}}},
                container(json!({"requests": {"cpu": "2", "memory": "1Gi"}})),
            ],
            "overhead": {"cpu": "100m"}}});
        assert_eq!(requests(&pod, Look::Spec).to_string(), "cpu=2300m,memory=1Gi");
        assert_eq!(limits(&pod, Look::Spec).to_string(), "");
    }

    #[test]
    fn a_pod_as_a_whole_may_ask_in_place_of_its_containers() {
        let pod = json!({"spec": {"containers": [container(json!({"requests": {"cpu": "1", "ephemeral-storage": "1Gi"}}))],
            "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "4"}}}});
        assert_eq!(requests(&pod, Look::Spec).to_string(), "cpu=3,ephemeral-storage=1Gi");
        assert_eq!(limits(&pod, Look::Spec).to_string(), "cpu=4");
        assert!(has_whole(&pod));
        assert_eq!(quality(&pod), Quality::Burstable);
    }

    #[test]
    fn while_a_resize_is_under_way_the_greater_amount_counts() {
        let mut pod = json!({"spec": {"containers": [container(json!({"requests": {"cpu": "1"}}))]},
            "status": {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}, "allocatedResources": {"cpu": "2"}}]}});
        assert_eq!(requests(&pod, Look::SpecAndStatus).to_string(), "cpu=2");
        assert_eq!(requests(&pod, Look::Spec).to_string(), "cpu=1");
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "9".into();
        assert_eq!(requests(&pod, Look::SpecAndStatus).to_string(), "cpu=9");
        pod["status"]["conditions"] = json!([{"type": "PodResizePending", "reason": "Infeasible"}]);
        assert_eq!(requests(&pod, Look::SpecAndStatus).to_string(), "cpu=2");
    }

    #[test]
    fn a_pod_is_guaranteed_only_if_all_of_it_is_limited() {
        let pod = |resources: Value| json!({"spec": {"containers": [{"resources": resources}]}});
        for (resources, class) in [
            (json!({}), Quality::BestEffort),
            (json!({"requests": {"cpu": "0"}}), Quality::BestEffort),
            (json!({"requests": {"cpu": "1"}}), Quality::Burstable),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m"}}), Quality::Guaranteed),
            (json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}), Quality::Burstable),
        ] {
            assert_eq!(quality(&pod(resources.clone())), class, "{resources}");
        }
    }

    #[test]
    fn a_pod_that_should_be_gone_counts_no_more() {
        let pod = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}});
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        assert!(!has_ended(&pod, at("2026-01-01T00:00:30Z")));
        assert!(has_ended(&pod, at("2026-01-01T00:00:31Z")));
        assert!(has_ended(&json!({"status": {"phase": "Failed"}}), at("2026-01-01T00:00:00Z")));
    }
}
