//! Amounts of processor, memory and the rest: what Pods ask for and what nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use pintle_meta::quantity::Quantity;

/// What a container that asks for nothing is taken to use when nodes are compared.
const UNSTATED: Resources =
    Resources { milli_cpu: 100, memory: 200 * 1024 * 1024, ephemeral_storage: 0, extended: BTreeMap::new() };

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    pub milli_cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub ephemeral_storage: i64,
    /// Devices, huge pages and whatever else a node offers by name.
    pub extended: BTreeMap<String, i64>,
}

impl Resources {
    /// Reads a list of the API; `pods` is not an amount of anything and is left out.
    pub fn of(list: Option<&BTreeMap<String, ApiQuantity>>) -> Self {
        let mut resources = Resources::default();
        for (name, amount) in list.into_iter().flatten() {
            let Ok(amount) = Quantity::parse(&amount.0) else { continue };
            match name.as_str() {
                "cpu" => resources.milli_cpu = amount.milli(),
                "memory" => resources.memory = amount.units(),
                "ephemeral-storage" => resources.ephemeral_storage = amount.units(),
                "pods" => {}
                _ => {
                    resources.extended.insert(name.clone(), amount.units());
                }
            }
        }
        resources
    }

    pub fn add(&mut self, other: &Resources) {
        self.each(other, |mine, theirs| mine.saturating_add(theirs));
    }

    pub fn subtract(&mut self, other: &Resources) {
        self.each(other, |mine, theirs| mine.saturating_sub(theirs));
        self.extended.retain(|_, amount| *amount != 0);
    }

    fn at_least(&mut self, other: &Resources) {
        self.each(other, i64::max);
    }

    fn each(&mut self, other: &Resources, combine: impl Fn(i64, i64) -> i64) {
        self.milli_cpu = combine(self.milli_cpu, other.milli_cpu);
        self.memory = combine(self.memory, other.memory);
        self.ephemeral_storage = combine(self.ephemeral_storage, other.ephemeral_storage);
        for (name, amount) in &other.extended {
            let mine = self.extended.entry(name.clone()).or_default();
            *mine = combine(*mine, *amount);
        }
    }
}

/// What a Pod asks for, and what it is taken to use when nodes are compared.
pub fn requests(pod: &Pod) -> (Resources, Resources) {
    let Some(spec) = &pod.spec else { return <(Resources, Resources)>::default() };
    let status = pod.status.as_ref();
    (total(spec, status, |resources, _| resources), total(spec, status, stated))
}

/// What a container asks for, and what it was given and is held to if that is more: its node may be about to change it.
fn of_container(container: &Container, status: Option<&PodStatus>) -> Resources {
    let asked = Resources::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()));
    let all = status.into_iter().flat_map(|status| [&status.init_container_statuses, &status.container_statuses]);
    let said: Option<&ContainerStatus> = all.flatten().flatten().find(|said| said.name == container.name);
    let Some(given) = said.and_then(|said| said.allocated_resources.as_ref()) else { return asked };
    let mut most = Resources::of(Some(given));
    let held = said.and_then(|said| said.resources.as_ref()).and_then(|resources| resources.requests.as_ref());
    most.at_least(&Resources::of(held));
    match status.is_some_and(is_refused) {
        true => Resources { milli_cpu: most.milli_cpu, memory: most.memory, ..asked },
        false => {
            most.at_least(&asked);
            most
        }
    }
}

/// Whether the node will never give the Pod what it asks for now.
fn is_refused(status: &PodStatus) -> bool {
    let mut all = status.conditions.iter().flatten();
    all.any(|one| one.type_ == "PodResizePending" && one.reason.as_deref() == Some("Infeasible"))
}

/// Init containers run one after the other, beside the sidecars started before them; then everything else together.
fn total(
    spec: &PodSpec,
    status: Option<&PodStatus>,
    adjust: impl Fn(Resources, Option<&BTreeMap<String, ApiQuantity>>) -> Resources,
) -> Resources {
    let of = |container: &Container| {
        let list = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        adjust(of_container(container, status), list)
    };
    let (mut together, mut sidecars, mut most) = (Resources::default(), Resources::default(), Resources::default());
    spec.containers.iter().for_each(|container| together.add(&of(container)));
    for container in spec.init_containers.iter().flatten() {
        let own = of(container);
        if container.restart_policy.as_deref() == Some("Always") {
            together.add(&own);
            sidecars.add(&own);
            most.at_least(&sidecars);
        } else {
            let mut beside = sidecars.clone();
            beside.add(&own);
            most.at_least(&beside);
        }
    }
    together.at_least(&most);
    // Amounts for the Pod as a whole take the place of the sum.
    let whole = spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let of_pod = Resources::of(whole);
    if whole.is_some_and(|list| list.contains_key("cpu")) {
        together.milli_cpu = of_pod.milli_cpu;
    }
    if whole.is_some_and(|list| list.contains_key("memory")) {
        together.memory = of_pod.memory;
    }
    together.add(&Resources::of(spec.overhead.as_ref()));
    together
}

fn stated(mut resources: Resources, list: Option<&BTreeMap<String, ApiQuantity>>) -> Resources {
    let has = |name: &str| list.is_some_and(|list| list.contains_key(name));
    if !has("cpu") {
        resources.milli_cpu = UNSTATED.milli_cpu;
    }
    if !has("memory") {
        resources.memory = UNSTATED.memory;
    }
    resources
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(cpu: &str, policy: Option<&str>) -> Value {
        json!({"name": "c", "restartPolicy": policy, "resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn a_pod_asks_for_the_most_that_it_uses_at_any_time() {
        let cases = [
            (json!({"containers": [container("1", None), container("500m", None)]}), 1500),
            (json!({"containers": [container("1", None)], "initContainers": [container("3", None)]}), 3000),
            // The sidecar runs beside the second init container and beside the rest.
            (
                json!({"containers": [container("1", None)],
                       "initContainers": [container("1", Some("Always")), container("2", None)]}),
                3000,
            ),
            (json!({"containers": [container("1", None)], "initContainers": [container("1", Some("Always"))]}), 2000),
            (json!({"containers": [container("1", None)], "overhead": {"cpu": "250m"}}), 1250),
            (json!({"containers": [container("1", None)], "resources": {"requests": {"cpu": "4"}}}), 4000),
        ];
        for (spec, milli_cpu) in cases {
            let pod: Pod = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(requests(&pod).0.milli_cpu, milli_cpu, "{spec}");
        }
    }

    #[test]
    fn a_container_that_states_nothing_still_weighs_something() {
        let pod = json!({"metadata": {}, "spec": {"containers": [{"name": "c"}]}});
        let (asked, taken) = requests(&serde_json::from_value(pod).unwrap());
        assert_eq!((asked.milli_cpu, asked.memory), (0, 0));
        assert_eq!((taken.milli_cpu, taken.memory), (100, 200 << 20));
    }

    #[test]
    fn a_pod_that_is_resized_counts_with_the_most_that_it_may_have_meanwhile() {
        let of = |asks: &str, given: &str, reason: &str| {
            let status = json!({
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 0,
                    "allocatedResources": {"cpu": given}}]});
            let spec = json!({"containers": [container(asks, None)]});
            let pod = serde_json::from_value(json!({"metadata": {}, "spec": spec, "status": status})).unwrap();
            requests(&pod).0.milli_cpu
        };
        assert_eq!(of("2", "1", "Deferred"), 2000);
        assert_eq!(of("1", "2", "Deferred"), 2000);
        assert_eq!(of("900", "1", "Infeasible"), 1000);
    }
}
