//! What the node removes by itself: images from a full disk, and dead containers.

use serde_json::json;

use crate::disk::Small;
use crate::harness::eventually;
use crate::harness::program::Place;
use crate::node::{Real, can_run};

#[tokio::test]
async fn a_full_disk_loses_the_least_recently_used_images_and_keeps_those_in_use() {
    if !can_run() {
        return;
    }
    let place = Place::new();
    let _small = Small::mount(&place.path("data"), 330);
    let flags = ["--image-gc-high-threshold", "50", "--image-gc-low-threshold", "40", "--image-gc-period", "1"];
    let cluster = Real::start_in(place, &[&flags[..], &["--minimum-image-ttl", "0"]].concat()).await;
    // Each takes about twice its size: packed, and unpacked. Together they stay below the threshold.
    for name in ["localhost/first:1", "localhost/used:1", "localhost/second:1"] {
        cluster.import(name, 20);
    }
    let run = |name: &str| {
        json!({"terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": format!("localhost/{name}:1"), "command": ["sleep", "100000"]}]})
    };
    cluster.pod("uses", run("used")).await;
    cluster.pod("used-it", run("second")).await;
    cluster.ok("wait --for=condition=Ready pod/uses pod/used-it --timeout=60s").await;
    cluster.ok("delete pod used-it --grace-period=0 --force").await;
    assert!(cluster.images().contains("localhost/first:1"), "nothing goes from a disk that has room");
    // The rest is filled by somebody else: an image could be collected while it comes in.
    std::fs::write(cluster.place.path("data/filler"), vec![1; 45 << 20]).expect("there is room");
    let left = eventually("an image goes", async || {
        let images = cluster.images();
        if images.contains("localhost/first:1") { Err(images) } else { Ok(images) }
    })
    .await;
    assert!(left.contains("localhost/used:1"), "one in use stays:\n{left}");
    cluster.ok("get pod uses").await;
    cluster.until("get nodes -o jsonpath='{.items[0].status.images}'", |images| !images.contains("first")).await;
}

#[tokio::test]
async fn the_node_keeps_no_more_dead_containers_than_it_may() {
    if !can_run() {
        return;
    }
    let cluster = Real::start(&["--maximum-dead-containers", "2", "--image-gc-period", "1"]).await;
    for index in 0..4 {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "script": "true"}]});
        cluster.pod(&format!("dead-{index}"), spec).await;
        cluster.phase(&format!("dead-{index}"), "Succeeded").await;
    }
    // Two containers, and the sandboxes of all four Pods, which exist.
    eventually("two dead containers are left", async || match cluster.containers() {
        6 => Ok(()),
        other => Err(format!("{other} containers and sandboxes")),
    })
    .await;
    for index in 0..4 {
        let pod = cluster.get(&format!("pod dead-{index}")).await;
        assert_eq!(pod["status"]["phase"], "Succeeded", "what is removed is not forgotten");
    }
}
