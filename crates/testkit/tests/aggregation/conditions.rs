//! Whether the other server can be asked, as its APIService says.

use crate::other::{Mood, SERVICE, VERSION, World};
use serde_json::json;
use std::time::Duration;

const URL: &str = "https://10.96.0.50:443/apis/things.example.com/v1";

#[tokio::test(start_paused = true)]
async fn the_condition_says_what_is_missing_until_nothing_is() {
    let world = World::unregistered().await;
    world.register(json!({})).await;
    let expect = async |status: &str, reason: &str, message: &str| {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(world.condition().await, (status.to_owned(), reason.to_owned(), message.to_owned()));
    };
    expect("False", "ServiceNotFound", r#"service/things in "default" is not present"#).await;
    let service = |port: u16| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "things", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.50", "ports": [{"name": "https", "port": port}]}})
    };
    world.cluster.apply(service(80)).await;
    expect("False", "ServicePortError", r#"service/things in "default" is not listening on port 443"#).await;
    world.cluster.request("DELETE", "/api/v1/namespaces/default/services/things", "", "").await;
    world.cluster.apply(service(443)).await;
    expect("False", "EndpointsNotFound", r#"cannot find endpointslices for service/things in "default""#).await;
    let slice = |ready: bool| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "things-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "things"}},
            "ports": [{"name": "https", "port": 8443}],
            "endpoints": [{"addresses": ["10.1.2.3"], "conditions": {"ready": ready}}]})
    };
    world.cluster.apply(slice(false)).await;
    let missing = r#"endpointslices for service/things in "default" have no addresses with port name "https""#;
    expect("False", "MissingEndpoints", missing).await;
    assert_eq!(world.get(VERSION).await.code, 503);
    let metric = |state: u8| format!("aggregator_unavailable_apiservice{{name=\"{SERVICE}\"}} {state}\n");
    assert!(String::from_utf8_lossy(&world.get("/metrics").await.bytes).contains(&metric(1)));
    world.cluster.apply(slice(true)).await;
    expect("True", "Passed", "all checks passed").await;
    assert_eq!(world.get(VERSION).await.code, 200);
    assert!(String::from_utf8_lossy(&world.get("/metrics").await.bytes).contains(&metric(0)));

    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/things-1";
    assert_eq!(world.cluster.request("DELETE", path, "", "").await.code, 200);
    expect("False", "EndpointsNotFound", r#"cannot find endpointslices for service/things in "default""#).await;
    world.cluster.apply(slice(true)).await;
    expect("True", "Passed", "all checks passed").await;

    let writes = world.cluster.writes();
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.cluster.writes(), writes, "nothing is written while nothing changes");

    let local = json!({"spec": {"service": null, "caBundle": null}}).to_string();
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{SERVICE}");
    assert_eq!(world.cluster.request("PATCH", &path, "application/merge-patch+json", local).await.code, 200);
    expect("True", "Local", "Local APIServices are always available").await;
    assert_eq!(world.get(VERSION).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_what_it_serves_is_not_available() {
    for (mood, why) in [
        (Mood::Down, format!(r#"Get "{URL}": dial tcp 10.1.2.3:8443: connect: connection refused"#)),
        (
            Mood::Silent,
            format!(r#"Get "{URL}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"#),
        ),
        (
            Mood::Hanging,
            format!(r#"Get "{URL}": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"#),
        ),
        (
            Mood::Misnamed,
            format!(
                r#"Get "{URL}": tls: failed to verify certificate: x509: certificate is valid for elsewhere.default.svc, not things.default.svc"#
            ),
        ),
        (Mood::Redirecting, format!("bad status from {URL}: 302")),
        (Mood::Ignorant, format!("bad status from {URL}: 404")),
    ] {
        let world = World::new(mood).await;
        let message = format!("failing or missing response from {URL}: {why}");
        assert_eq!(
            world.condition().await,
            ("False".to_owned(), "FailedDiscoveryCheck".to_owned(), message),
            "{mood:?}"
        );
        let answer = world.get(&format!("{VERSION}/things")).await;
        assert_eq!((answer.code, &*answer.bytes), (503, b"service unavailable\n".as_slice()), "{mood:?}");
        world.other.is(Mood::Well);
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert_eq!(world.condition().await.1, "Passed", "{mood:?}");
        world.other.is(mood);
        tokio::time::sleep(Duration::from_secs(45)).await;
        assert_eq!(world.condition().await.1, "FailedDiscoveryCheck", "{mood:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_to_trust_anyone_gets_that_and_a_bundle_that_is_none_is_reported() {
    let world = World::unregistered().await;
    world.serve().await;
    world.other.is(Mood::Misnamed);
    world.register(json!({"caBundle": null, "insecureSkipTLSVerify": true})).await;
    assert_eq!(world.condition().await.1, "Passed");
    assert_eq!(world.get(VERSION).await.code, 200);

    let world = World::unregistered().await;
    world.serve().await;
    world.register(json!({"caBundle": "bm9uZQ=="})).await;
    let (status, reason, message) = world.condition().await;
    assert_eq!((status.as_str(), reason.as_str()), ("False", "FailedDiscoveryCheck"));
    assert!(message.contains("unable to load root certificates: unable to parse bytes as PEM block"), "{message}");
}
