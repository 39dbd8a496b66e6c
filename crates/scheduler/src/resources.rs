//! Amounts of processor, memory and the rest: what Pods ask for and what nodes have.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
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
pub fn requests(spec: &PodSpec) -> (Resources, Resources) {
    (total(spec, |resources, _| resources), total(spec, stated))
}

/// Init containers run one after the other, beside the sidecars started before them; then everything else together.
fn total(spec: &PodSpec, adjust: impl Fn(Resources, Option<&BTreeMap<String, ApiQuantity>>) -> Resources) -> Resources {
    let of = |container: &Container| {
        let list = container.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        adjust(Resources::of(list), list)
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
            let parsed: PodSpec = serde_json::from_value(spec.clone()).unwrap();
            assert_eq!(requests(&parsed).0.milli_cpu, milli_cpu, "{spec}");
        }
    }

    #[test]
    fn a_container_that_states_nothing_still_weighs_something() {
        let spec: PodSpec = serde_json::from_value(json!({"containers": [{"name": "c"}]})).unwrap();
        let (asked, taken) = requests(&spec);
        assert_eq!((asked.milli_cpu, asked.memory), (0, 0));
        assert_eq!((taken.milli_cpu, taken.memory), (100, 200 << 20));
    }
}
