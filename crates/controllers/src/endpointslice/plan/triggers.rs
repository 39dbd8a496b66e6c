//! When what a slice tells came about: the annotation from which the time until nodes follow is measured.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_meta::clock::rfc3339;

use super::Backends;
use crate::pods;

pub(super) const ANNOTATION: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// When each Pod became what it is, and the Service if nobody has told of it yet.
pub(super) struct Triggers {
    of_pods: BTreeMap<String, Timestamp>,
    of_service: Option<Timestamp>,
}

impl Triggers {
    pub(super) fn of(service: &Service, backends: &Backends, is_new: bool) -> Self {
        let turned = |pod: &k8s_openapi::api::core::v1::Pod| {
            let at = pods::ready_condition(pod)?.last_transition_time.as_ref()?.0;
            Some((pod.metadata.uid.clone()?, at))
        };
        let created = service.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Triggers {
            of_pods: backends.pods.iter().filter_map(|pod| turned(pod)).collect(),
            of_service: created.filter(|_| is_new),
        }
    }

    /// The earliest of what the slice tells now and did not tell before.
    pub(super) fn stamp_slice(&self, slice: &mut EndpointSlice, before: Option<&EndpointSlice>) {
        let known = |endpoint: &&Endpoint| {
            before.is_some_and(|before| before.endpoints.iter().flatten().any(|old| old == *endpoint))
        };
        let news = slice.endpoints.iter().flatten().filter(|endpoint| !known(endpoint));
        let at = self.earliest(news.filter_map(|endpoint| endpoint.target_ref.as_ref()?.uid.as_deref()));
        stamp(&mut slice.metadata, at);
    }

    pub(super) fn stamp_endpoints(&self, endpoints: &mut Endpoints, before: Option<&Endpoints>) {
        fn told(endpoints: &Endpoints) -> Vec<(bool, EndpointAddress)> {
            let of = |subset: &EndpointSubset| {
                let ready = subset.addresses.clone().into_iter().flatten().map(|address| (true, address));
                let unready = subset.not_ready_addresses.clone().into_iter().flatten();
                ready.chain(unready.map(|address| (false, address))).collect::<Vec<_>>()
            };
            endpoints.subsets.iter().flatten().flat_map(of).collect()
        }
        let old = before.map(told).unwrap_or_default();
        let news: Vec<_> = told(endpoints).into_iter().filter(|one| !old.contains(one)).collect();
        let at = self.earliest(news.iter().filter_map(|(_, address)| address.target_ref.as_ref()?.uid.as_deref()));
        stamp(&mut endpoints.metadata, at);
    }

    fn earliest<'a>(&self, pods: impl Iterator<Item = &'a str>) -> Option<Timestamp> {
        self.of_service.or_else(|| pods.filter_map(|uid| self.of_pods.get(uid).copied()).min())
    }
}

/// Without a time there is no annotation: an older one would tell of something else.
fn stamp(meta: &mut ObjectMeta, at: Option<Timestamp>) {
    let annotations = meta.annotations.get_or_insert_default();
    match at {
        Some(at) => drop(annotations.insert(ANNOTATION.to_owned(), rfc3339(at))),
        None => drop(annotations.remove(ANNOTATION)),
    }
    if annotations.is_empty() {
        meta.annotations = None;
    }
}
