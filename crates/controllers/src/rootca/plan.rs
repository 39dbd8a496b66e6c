//! What the published ConfigMap must look like.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pintle_runtime::{Plan, Write};

pub(super) const NAME: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";

/// Clients compare nothing here, but people read it.
const DESCRIBED: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal \
endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions \
of Kubernetes clusters.";

/// Publishes the certificates, or puts right what somebody changed.
pub(super) fn plan(namespace: Option<&Namespace>, present: Option<&ConfigMap>, root_ca: &str) -> Plan {
    let Some(namespace) = namespace.filter(|namespace| namespace.metadata.deletion_timestamp.is_none()) else {
        return Plan::default();
    };
    let data = Some(BTreeMap::from([("ca.crt".to_owned(), root_ca.to_owned())]));
    let Some(present) = present else {
        let metadata = ObjectMeta {
            name: Some(NAME.into()),
            namespace: namespace.metadata.name.clone(),
            annotations: Some(BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIBED.to_owned())])),
            ..ObjectMeta::default()
        };
        let map = ConfigMap { metadata, data, ..ConfigMap::default() };
        return Plan::of(vec![Write::create(&map).unless_there()]);
    };
    let described = present.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(DESCRIPTION));
    if present.data == data && described {
        return Plan::default();
    }
    let mut wanted = present.clone();
    wanted.data = data;
    let annotations = wanted.metadata.annotations.get_or_insert_default();
    annotations.entry(DESCRIPTION.to_owned()).or_insert_with(|| DESCRIBED.to_owned());
    Plan::of(vec![Write::replace(&wanted)])
}
