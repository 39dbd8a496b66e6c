//! What a reader of events gets to see when loops talk a lot.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::*;
use crate::testing::scripted;

fn pod() -> Pod {
    let metadata = ObjectMeta {
        name: Some("web".into()),
        namespace: Some("shop".into()),
        uid: Some("u1".into()),
        ..ObjectMeta::default()
    };
    Pod { metadata, ..Pod::default() }
}

/// Every request as method, path and body, answered with what was sent.
async fn written_by(record: impl FnOnce(&Recorder)) -> Vec<(String, String, Value)> {
    let seen: Arc<Mutex<Vec<(String, String, Value)>>> = Arc::default();
    let log = seen.clone();
    let client = scripted(move |method, path, body| {
        log.lock().unwrap().push((method.to_owned(), path.to_owned(), body.clone()));
        (200, if method == "PATCH" { serde_json::to_value(Event::default()).unwrap() } else { body })
    });
    let (_trigger, shutdown) = Shutdown::new();
    let sink = Sink::start(
        &client,
        Clock::virtual_from(Timestamp::UNIX_EPOCH),
        &Random::seeded(1),
        Metrics::default(),
        &shutdown,
    );
    record(&sink.recorder("replicaset-controller"));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[tokio::test(start_paused = true)]
async fn an_event_names_its_object_and_its_source() {
    let requests = written_by(|recorder| recorder.normal(&pod(), "Created", "made it")).await;
    let [(method, path, event)] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!((method.as_str(), path.as_str()), ("POST", "/api/v1/namespaces/shop/events"));
    assert_eq!(event["involvedObject"]["uid"], "u1");
    assert_eq!(event["involvedObject"]["kind"], "Pod");
    assert_eq!(event["source"]["component"], "replicaset-controller");
    assert_eq!(event["reportingComponent"], "replicaset-controller");
    assert!(event["metadata"]["name"].as_str().unwrap().starts_with("web."));
}

#[tokio::test(start_paused = true)]
async fn equal_events_become_one_with_a_count() {
    let requests = written_by(|recorder| (0..3).for_each(|_| recorder.warning(&pod(), "Failed", "no room"))).await;
    let methods: Vec<&str> = requests.iter().map(|(method, ..)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "PATCH", "PATCH"]);
    assert_eq!(requests[2].2["count"], 3);
}

#[tokio::test(start_paused = true)]
async fn different_events_at_one_instant_get_different_names() {
    let requests = written_by(|recorder| {
        recorder.normal(&pod(), "A", "one");
        recorder.normal(&pod(), "B", "two");
    })
    .await;
    assert_ne!(requests[0].2["metadata"]["name"], requests[1].2["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn many_alike_are_merged_and_a_chatty_source_is_cut_off() {
    let requests =
        written_by(|recorder| (0..40).for_each(|n| recorder.warning(&pod(), "Failed", format!("try {n}")))).await;
    assert_eq!(requests.len(), 25, "the burst of one source about one object");
    assert_eq!(requests.iter().filter(|(method, ..)| method == "POST").count(), 10);
    assert_eq!(requests[24].2["message"], "(combined from similar events): try 24");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_hangs_holds_up_few_events_and_what_is_dropped_is_counted() {
    let answered: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = answered.clone();
    // Whatever is said about web-0 gets no answer.
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let log = log.clone();
        async move {
            let body = request.into_body().collect_bytes().await?;
            let event: Event = serde_json::from_slice(&body)?;
            let name = event.involved_object.name.unwrap_or_default();
            if name == "web-0" {
                std::future::pending::<()>().await;
            }
            log.lock().unwrap().push(name);
            let answer = http::Response::new(kube::client::Body::from(body.to_vec()));
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(answer)
        }
    });
    let client = Client::new(service, "default");
    let (_trigger, shutdown) = Shutdown::new();
    let (clock, metrics) = (Clock::virtual_from(Timestamp::UNIX_EPOCH), Metrics::default());
    let recorder = Sink::start(&client, clock, &Random::seeded(1), metrics.clone(), &shutdown).recorder("test");
    let named = |index: usize| {
        let mut pod = pod();
        pod.metadata.name = Some(format!("web-{index}"));
        pod
    };
    for index in 0..40 {
        recorder.normal(&named(index), "Created", "made it");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(answered.lock().unwrap().len() >= 20, "{:?}", answered.lock().unwrap());
    for _ in 0..CAPACITY + 7 {
        recorder.normal(&named(0), "Created", "made it");
    }
    let page = metrics.render().unwrap();
    let dropped = page.lines().find_map(|line| line.strip_prefix("pintle_events_dropped_total ")).unwrap();
    assert!(dropped.parse::<u64>().unwrap() >= 7, "{dropped}");
}
