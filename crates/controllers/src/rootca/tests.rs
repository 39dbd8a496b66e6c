//! What a Pod that talks to the API server would lose.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

use super::plan::plan;

#[test]
fn the_certificates_are_published_and_an_edit_is_undone() {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    let planned = |present: Option<&ConfigMap>| {
        let plan = plan(Some(&namespace), present, "PEM");
        plan.writes.first().map(|write| (write.to_string(), serde_json::from_value(write.body()).unwrap()))
    };
    let (write, map): (_, ConfigMap) = planned(None).unwrap();
    assert_eq!(
        (write.as_str(), map.data.as_ref().unwrap()["ca.crt"].as_str()),
        ("create configmaps/kube-root-ca.crt", "PEM")
    );
    assert_eq!(planned(Some(&map)), None);
    let edited = ConfigMap { data: None, ..map };
    let (write, mended): (_, ConfigMap) = planned(Some(&edited)).unwrap();
    assert_eq!(
        (write.as_str(), mended.data.unwrap()["ca.crt"].as_str()),
        ("replace configmaps/kube-root-ca.crt", "PEM")
    );
}
