//! What is too large is refused with an answer, and nobody else notices.

mod harness;

use harness::program::Place;
use std::fs;

#[tokio::test]
async fn a_body_over_three_mebibytes_is_refused_and_the_next_request_is_fine() {
    let place = Place::new();
    let _program = place.up(&["--ephemeral"]).await;
    let kubectl = place.kubectl();
    let manifest = |name: &str, size: usize| {
        let filler = "x".repeat(size);
        let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{filler: {filler}}}\n");
        let path = place.path(&format!("{name}.yaml"));
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let large = manifest("large", 4 << 20);
    let answer = kubectl.run(&format!("create -f {large}")).await;
    assert_ne!(answer.code, Some(0), "{answer}");
    assert!(answer.stderr.contains("Request entity too large: limit is 3145728"), "{answer}");
    let larger_than_a_config_map = manifest("medium", 2 << 20);
    let answer = kubectl.run(&format!("create -f {larger_than_a_config_map}")).await;
    assert!(answer.stderr.contains("Too long: may not be more than 1048576 bytes"), "{answer}");
    let small = manifest("small", 1 << 10);
    assert_eq!(kubectl.ok(&format!("create -f {small}")).await, "configmap/small created\n");
    kubectl.until("get configmaps -o name", |found| found.contains("small") && !found.contains("large")).await;
}
