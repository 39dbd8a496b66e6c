//! A project as kubebuilder makes them, of controller-runtime's published modules: its defaulting, validating and conversion webhooks
//! do against this program what its own tests say.

#[path = "harness/go.rs"]
mod go;
mod harness;

use harness::program::Place;
use std::path::Path;

const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kubebuilder");

#[tokio::test]
async fn webhooks_of_a_kubebuilder_project_default_validate_and_convert() {
    let place = Place::new();
    let Some(directory) = go::module(&place, Path::new(SOURCES)).await else { return };
    let _program = place.up(&["--ephemeral"]).await;
    let kubeconfig = place.path("kubeconfig");
    let variables = [("KUBECONFIG", kubeconfig.to_str().expect("a path in UTF-8"))];
    let tested = go::go(&directory, &["test", "-count=1", "-v", "./..."], &variables).await;
    let said = format!("{}{}", String::from_utf8_lossy(&tested.stdout), String::from_utf8_lossy(&tested.stderr));
    assert!(tested.status.success(), "{said}");
    for test in
        ["TestATinIsRedUnlessItSaysAnother", "TestAWrongTinIsRefusedWithItsField", "TestATinIsTheSameInBothVersions"]
    {
        assert!(said.contains(&format!("--- PASS: {test}")), "{test} did not run:\n{said}");
    }
    assert_eq!(place.kubectl().ok("get --raw /readyz").await, "ok", "the server is as well as before");
}
