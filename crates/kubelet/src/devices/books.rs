//! What devices there are and who has which. No I/O.
//!
//! ```text
//! offers  example.com/lamp: healthy {a, b}, unhealthy {c}
//! held    Pod 7f0c: container web: example.com/lamp: {a}, with what the plugin said when it gave it
//! ```

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PodSpec, ResourceHealth, ResourceStatus};

use super::messages::{ContainerAllocateResponse, Device, HEALTHY};

/// For how long the Node names a resource whose plugin has gone, with nothing of it to give.
const GRACE: SignedDuration = SignedDuration::from_mins(5);

#[derive(Default)]
pub(super) struct Books {
    offers: BTreeMap<String, Offer>,
    /// Resources that were offered and are no more.
    gone: BTreeSet<String>,
    held: Held,
}

/// By the Pod's UID, the container and the resource.
pub(super) type Held = BTreeMap<String, OfPod>;
pub(super) type OfPod = BTreeMap<String, BTreeMap<String, Holding>>;

/// What one container has of one resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Holding {
    pub(super) devices: BTreeSet<String>,
    pub(super) answer: ContainerAllocateResponse,
}

/// What the plugin of one resource has said last.
#[derive(Debug, Default)]
struct Offer {
    /// Which of the resource's plugins, one after the other, it was.
    registration: u64,
    healthy: BTreeSet<String>,
    unhealthy: BTreeSet<String>,
    left_at: Option<Timestamp>,
}

/// What the Node says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts {
    pub(crate) capacity: BTreeMap<String, usize>,
    pub(crate) allocatable: BTreeMap<String, usize>,
    /// To be taken away.
    pub(crate) gone: BTreeSet<String>,
}

impl Books {
    /// As an agent finds them that has just started: the plugins have yet to come back.
    pub(super) fn recalled(held: Held, registered: BTreeSet<String>, now: Timestamp) -> Self {
        let mut books = Books { held, ..Books::default() };
        for resource in registered {
            books.recall(&resource, now);
        }
        books
    }

    /// There was a plugin of this resource, or may have been: until one comes there is nothing to give.
    pub(super) fn recall(&mut self, resource: &str, now: Timestamp) {
        let offer = || Offer { left_at: Some(now), ..Offer::default() };
        self.offers.entry(resource.to_owned()).or_insert_with(offer);
    }

    /// A plugin has come; what it has, it will say.
    pub(super) fn register(&mut self, resource: &str, registration: u64) {
        let offer = self.offers.entry(resource.to_owned()).or_default();
        offer.registration = registration;
        offer.left_at = None;
        self.gone.remove(resource);
    }

    /// False if another plugin has taken its place.
    pub(super) fn report(&mut self, resource: &str, registration: u64, devices: Vec<Device>) -> bool {
        let Some(offer) = self.offer(resource, registration) else { return false };
        let (healthy, unhealthy): (Vec<_>, Vec<_>) = devices.into_iter().partition(|device| device.health == HEALTHY);
        offer.healthy = healthy.into_iter().map(|device| device.id).collect();
        offer.unhealthy = unhealthy.into_iter().map(|device| device.id).collect();
        true
    }

    /// The plugin does not answer any more: nobody knows whether its devices can be used.
    pub(super) fn leave(&mut self, resource: &str, registration: u64, now: Timestamp) {
        if let Some(offer) = self.offer(resource, registration) {
            let healthy = std::mem::take(&mut offer.healthy);
            offer.unhealthy.extend(healthy);
            offer.left_at = Some(now);
        }
    }

    /// Forgets resources whose plugin has been away for long; true if there was one.
    pub(super) fn expire(&mut self, now: Timestamp) -> bool {
        let is_over = |offer: &Offer| offer.left_at.is_some_and(|left| now.duration_since(left) > GRACE);
        let over: Vec<String> =
            self.offers.iter().filter(|(_, offer)| is_over(offer)).map(|(name, _)| name.clone()).collect();
        self.offers.retain(|name, _| !over.contains(name));
        self.gone.extend(over.iter().cloned());
        !over.is_empty()
    }

    pub(super) fn amounts(&self) -> Amounts {
        let all = |offer: &Offer| offer.healthy.union(&offer.unhealthy).count();
        Amounts {
            capacity: self.offers.iter().map(|(name, offer)| (name.clone(), all(offer))).collect(),
            allocatable: self.offers.iter().map(|(name, offer)| (name.clone(), offer.healthy.len())).collect(),
            gone: self.gone.clone(),
        }
    }

    /// Whether the resource is one of plugins: offered now, or given to someone before.
    pub(super) fn is_known(&self, resource: &str) -> bool {
        self.offers.contains_key(resource) || !self.holders(resource).is_empty()
    }

    pub(super) fn healthy(&self, resource: &str) -> Option<&BTreeSet<String>> {
        self.offers.get(resource).map(|offer| &offer.healthy)
    }

    pub(super) fn registered(&self) -> BTreeSet<String> {
        self.offers.keys().cloned().collect()
    }

    pub(super) fn held(&self) -> &Held {
        &self.held
    }

    pub(super) fn of_pod(&self, pod: &str) -> Option<&OfPod> {
        self.held.get(pod)
    }

    pub(super) fn of_container(&self, pod: &str, container: &str) -> Option<&BTreeMap<String, Holding>> {
        self.held.get(pod)?.get(container)
    }

    /// All devices of a resource that someone has.
    pub(super) fn taken(&self, resource: &str) -> BTreeSet<String> {
        let holdings = self.held.values().flat_map(BTreeMap::values).filter_map(|of| of.get(resource));
        holdings.flat_map(|holding| holding.devices.iter().cloned()).collect()
    }

    /// The Pods that have devices of a resource.
    pub(super) fn holders(&self, resource: &str) -> BTreeSet<String> {
        let has = |of_pod: &OfPod| of_pod.values().any(|of| of.contains_key(resource));
        self.held.iter().filter(|(_, of_pod)| has(of_pod)).map(|(pod, _)| pod.clone()).collect()
    }

    /// What containers that end before this one starts have of a resource, and none that runs beside it.
    pub(super) fn reusable(&self, pod: &str, spec: &PodSpec, container: &str, resource: &str) -> BTreeSet<String> {
        let devices = |name: &str| {
            let holding = self.of_container(pod, name).and_then(|of| of.get(resource));
            holding.map(|holding| holding.devices.clone()).unwrap_or_default()
        };
        let init = spec.init_containers.iter().flatten();
        let init = init.map(|init| (init, init.restart_policy.as_deref() != Some("Always")));
        let all = init.chain(spec.containers.iter().map(|main| (main, false)));
        let mut reusable = BTreeSet::new();
        for (before, ends) in all.take_while(|(before, _)| before.name != container) {
            match ends {
                true => reusable.extend(devices(&before.name)),
                false => reusable.retain(|device| !devices(&before.name).contains(device)),
            }
        }
        reusable
    }

    pub(super) fn give(&mut self, pod: &str, container: &str, resource: &str, holding: Holding) {
        let of_pod = self.held.entry(pod.to_owned()).or_default();
        of_pod.entry(container.to_owned()).or_default().insert(resource.to_owned(), holding);
    }

    /// Makes a Pod have what it had at some time before.
    pub(super) fn restore(&mut self, pod: &str, before: Option<OfPod>) {
        match before {
            Some(before) => self.held.insert(pod.to_owned(), before),
            None => self.held.remove(pod),
        };
    }

    /// True if the Pod had something.
    pub(super) fn release(&mut self, pod: &str) -> bool {
        self.held.remove(pod).is_some()
    }

    /// What a container's status says of its devices.
    pub(super) fn statuses(&self, pod: &str, container: &str) -> Vec<ResourceStatus> {
        let of = self.of_container(pod, container).into_iter().flatten();
        let status = |(resource, holding): (&String, &Holding)| {
            let health = |device: &String| ResourceHealth {
                resource_id: device.clone(),
                health: Some(self.health(resource, device).to_owned()),
                ..ResourceHealth::default()
            };
            let resources = Some(holding.devices.iter().map(health).collect());
            ResourceStatus { name: resource.clone(), resources }
        };
        of.map(status).collect()
    }

    fn health(&self, resource: &str, device: &str) -> &'static str {
        match self.offers.get(resource) {
            Some(offer) if offer.left_at.is_none() && offer.healthy.contains(device) => "Healthy",
            Some(offer) if offer.left_at.is_none() && offer.unhealthy.contains(device) => "Unhealthy",
            _ => "Unknown",
        }
    }

    fn offer(&mut self, resource: &str, registration: u64) -> Option<&mut Offer> {
        self.offers.get_mut(resource).filter(|offer| offer.registration == registration)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LAMP: &str = "example.com/lamp";

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn devices(of: &[(&str, &str)]) -> Vec<Device> {
        of.iter().map(|(id, health)| Device { id: (*id).to_owned(), health: (*health).to_owned() }).collect()
    }

    fn lamps(books: &Books) -> Option<(usize, usize)> {
        let amounts = books.amounts();
        Some((*amounts.capacity.get(LAMP)?, *amounts.allocatable.get(LAMP)?))
    }

    fn holding(devices: &[&str]) -> Holding {
        Holding { devices: devices.iter().map(|id| (*id).to_owned()).collect(), ..Holding::default() }
    }

    #[test]
    fn the_node_offers_what_is_healthy_and_forgets_a_plugin_after_five_minutes() {
        let mut books = Books::default();
        assert!(!books.is_known(LAMP));
        books.register(LAMP, 1);
        assert_eq!(lamps(&books), Some((0, 0)));
        assert!(books.report(LAMP, 1, devices(&[("a", "Healthy"), ("b", "Healthy"), ("c", "Unhealthy")])));
        assert_eq!(lamps(&books), Some((3, 2)));
        books.leave(LAMP, 1, at(0));
        assert_eq!(lamps(&books), Some((3, 0)));
        assert!(!books.expire(at(300)));
        assert!(books.expire(at(301)));
        assert_eq!((lamps(&books), books.amounts().gone), (None, [LAMP.to_owned()].into()));
        books.register(LAMP, 2);
        assert!(books.amounts().gone.is_empty());
    }

    #[test]
    fn a_plugin_whose_place_was_taken_is_not_listened_to() {
        let mut books = Books::default();
        books.register(LAMP, 1);
        books.register(LAMP, 2);
        assert!(books.report(LAMP, 2, devices(&[("a", "Healthy")])));
        assert!(!books.report(LAMP, 1, Vec::new()));
        books.leave(LAMP, 1, at(0));
        assert_eq!(lamps(&books), Some((1, 1)));
    }

    #[test]
    fn a_restarted_agent_has_nothing_to_give_until_the_plugin_is_back() {
        let held = [("p".to_owned(), [("c".to_owned(), [(LAMP.to_owned(), holding(&["a"]))].into())].into())].into();
        let mut books = Books::recalled(held, [LAMP.to_owned()].into(), at(0));
        assert_eq!((lamps(&books), books.taken(LAMP)), (Some((0, 0)), holding(&["a"]).devices));
        assert_eq!(books.statuses("p", "c")[0].resources.as_ref().unwrap()[0].health.as_deref(), Some("Unknown"));
        books.register(LAMP, 1);
        books.report(LAMP, 1, devices(&[("a", "Unhealthy"), ("b", "Healthy")]));
        assert_eq!(books.statuses("p", "c")[0].resources.as_ref().unwrap()[0].health.as_deref(), Some("Unhealthy"));
        assert!(books.release("p") && !books.release("p"));
        assert!(books.taken(LAMP).is_empty());
    }

    #[test]
    fn containers_reuse_what_init_containers_had_and_never_what_a_sidecar_has() {
        let spec: PodSpec = serde_json::from_value(json!({
            "initContainers": [{"name": "first"}, {"name": "side", "restartPolicy": "Always"}, {"name": "second"}],
            "containers": [{"name": "main"}, {"name": "other"}],
        }))
        .unwrap();
        let mut books = Books::default();
        for (container, devices, reusable) in [
            ("first", &["a", "b"][..], &[][..]),
            ("side", &["a"], &["a", "b"]),
            ("second", &["b", "c"], &["b"]),
            ("main", &["c"], &["b", "c"]),
            ("other", &["b"], &["b"]),
        ] {
            assert_eq!(books.reusable("p", &spec, container, LAMP), holding(reusable).devices, "{container}");
            books.give("p", container, LAMP, holding(devices));
        }
    }
}
