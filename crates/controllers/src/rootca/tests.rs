//! What a Pod that talks to the API server would lose.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use serde_json::json;

use super::plan::{Step, step};

#[test]
fn the_certificates_are_published_and_an_edit_is_undone() {
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap();
    let Step::Create(map) = step(&namespace, None, "PEM") else { panic!("nothing was created") };
    assert_eq!(map.data.as_ref().unwrap()["ca.crt"], "PEM");
    assert!(matches!(step(&namespace, Some(&map), "PEM"), Step::Nothing));
    let edited = ConfigMap { data: None, ..*map };
    let Step::Replace(mended) = step(&namespace, Some(&edited), "PEM") else { panic!("the edit stayed") };
    assert_eq!(mended.data.as_ref().unwrap()["ca.crt"], "PEM");
}
