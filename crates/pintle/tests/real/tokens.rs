//! A Pod's token is exchanged before it ends, in the file that the container reads.
//!
//! A token lives for ten minutes at least. Nobody waits for that here: `libfaketime` moves the clock of the whole program.

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::harness::eventually;
use crate::harness::program::Place;
use crate::node::{Real, can_run};
use crate::skip;

/// Debian's package, under the name of this processor.
fn faketime() -> Option<PathBuf> {
    let library = format!("usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    let tools = std::env::var_os("PINTLE_TOOLS").map(PathBuf::from);
    let mut places = [Some(PathBuf::from("/")), tools].into_iter().flatten().map(|root| root.join(&library));
    let found = places.find(|library| library.exists());
    if found.is_none() {
        skip::skip(&["libfaketime"]);
    }
    found
}

/// What the token says of itself.
fn claims(token: &str) -> Value {
    let middle = token.split('.').nth(1).expect("three parts");
    serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(middle).expect("base64")).expect("JSON")
}

/// Whether the server takes the token for a door key.
async fn opens(cluster: &Real, token: &str) -> bool {
    let file = cluster.place.path("review.json");
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": ["vault"]}});
    std::fs::write(&file, review.to_string()).expect("a file");
    let answer = cluster.ok(&format!("create -f {} -o json", file.display())).await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    answer["status"]["authenticated"] == true
}

#[tokio::test]
async fn a_running_container_finds_a_new_token_before_its_old_one_ends() {
    if !can_run() {
        return;
    }
    let Some(library) = faketime() else { return };
    let mut place = Place::new();
    let clock = place.path("clock");
    let set = |offset: &str| {
        // At once or not at all: the program reads it whenever it asks for the time.
        std::fs::write(clock.with_extension("new"), offset).expect("a file");
        std::fs::rename(clock.with_extension("new"), &clock).expect("a file");
    };
    set("+0");
    let said = [
        ("LD_PRELOAD", library.as_path()),
        ("FAKETIME_TIMESTAMP_FILE", clock.as_path()),
        ("FAKETIME_NO_CACHE", "1".as_ref()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".as_ref()),
        ("NO_FAKE_STAT", "1".as_ref()),
    ];
    place.variables = said.map(|(name, value)| (name, value.as_os_str().to_owned())).to_vec();
    let cluster = Real::start_in(place, &[]).await;
    let token = json!({"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}});
    let script = "while :; do new=$(cat /t/token); [ \"$new\" = \"$old\" ] || echo $new; old=$new; sleep 0.2; done";
    cluster
        .pod(
            "holder",
            json!({"terminationGracePeriodSeconds": 0, "volumes": [{"name": "t", "projected": {"sources": [token]}}],
            "containers": [{"name": "c", "script": script, "volumeMounts": [{"name": "t", "mountPath": "/t"}]}]}),
        )
        .await;
    cluster.ok("wait --for=condition=Ready pod/holder --timeout=60s").await;
    let pod = cluster.get("pod holder").await;
    let tokens = async |count: usize| {
        eventually(&format!("the container has seen {count} tokens"), async || {
            // The node looks at what it has laid every minute; a change of the Pod makes it look at once.
            cluster.ok(&format!("annotate pod holder --overwrite look=for-{count}")).await;
            let log = cluster.log(&pod, "c", 0);
            let seen: Vec<String> = log.lines().map(str::to_owned).collect();
            if seen.len() == count { Ok(seen) } else { Err(log) }
        })
        .await
    };
    let first = tokens(1).await.remove(0);
    let said = claims(&first);
    assert_eq!(said["exp"].as_i64().expect("a time") - said["iat"].as_i64().expect("a time"), 600, "{said}");

    // Four fifths of its life are eight minutes.
    set("+7m");
    assert_eq!(tokens(1).await, std::slice::from_ref(&first));
    set("+9m");
    let second = tokens(2).await.remove(1);
    let later = claims(&second)["iat"].as_i64().expect("a time") - said["iat"].as_i64().expect("a time");
    assert!((540..600).contains(&later), "{later} seconds later");
    assert!(opens(&cluster, &first).await && opens(&cluster, &second).await);
    set("+11m");
    assert!(!opens(&cluster, &first).await && opens(&cluster, &second).await);
    let pod = cluster.get("pod holder").await;
    assert_eq!(pod["status"]["containerStatuses"][0]["restartCount"], 0);
}
