//! Probes and scrapes over loopback, as the kubelet and Prometheus make them.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::board::Board;
use crate::key::Key;
use crate::queue::Queue;
use crate::shutdown::Trigger;

/// A server on a free port; it ends with the trigger.
async fn start(health: Health, metrics: Metrics) -> (Trigger, std::net::SocketAddr, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (trigger, shutdown) = Shutdown::new();
    (trigger, address, tokio::spawn(serve(listener, health, metrics, shutdown)))
}

/// The code and the body.
async fn ask(address: std::net::SocketAddr, method: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    (code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
}

#[tokio::test]
async fn a_process_that_cannot_work_is_not_ready_and_not_restarted() {
    let (health, synced) = (Health::default(), Arc::new(AtomicBool::new(false)));
    health.live("loop", || Ok(()));
    let seen = synced.clone();
    health.ready(
        "informers",
        move || {
            if seen.load(Ordering::Relaxed) { Ok(()) } else { Err("a secret reason".to_owned()) }
        },
    );
    let (trigger, address, serving) = start(health, Metrics::default()).await;
    assert_eq!(ask(address, "GET", "/healthz").await, (200, "ok".into()));
    assert_eq!(ask(address, "GET", "/livez").await, (200, "ok".into()));
    let (code, page) = ask(address, "GET", "/readyz").await;
    let expected =
        "[+]ping ok\n[+]loop ok\n[-]informers failed: reason withheld\n[+]shutdown ok\nreadyz check failed\n";
    assert_eq!((code, page.as_str()), (500, expected));
    assert_eq!(ask(address, "GET", "/readyz?exclude=informers").await, (200, "ok".into()));
    assert_eq!(ask(address, "GET", "/readyz/loop").await, (200, "ok".into()));
    assert_eq!(ask(address, "GET", "/readyz/informers").await.0, 500);
    assert_eq!(ask(address, "GET", "/readyz/nothing").await.0, 404);
    synced.store(true, Ordering::Relaxed);
    assert_eq!(ask(address, "GET", "/readyz").await, (200, "ok".into()));
    let (code, page) = ask(address, "GET", "/livez?verbose").await;
    assert_eq!((code, page.as_str()), (200, "[+]ping ok\n[+]loop ok\nlivez check passed\n"));
    trigger.fire();
    serving.await.unwrap();
    assert!(TcpStream::connect(address).await.is_err(), "it listens no longer");
}

#[tokio::test]
async fn a_dashboard_finds_what_controller_runtime_would_show() {
    let (metrics, board) = (Metrics::default(), Board::default());
    let queue: Queue<Key> = Queue::default();
    board.enter("at", queue.clone());
    queue.add(Key::new("default", "a"));
    queue.add(Key::new("default", "b"));
    metrics.observe_board(&board);
    metrics.observe_informer("Pod", || (7, 4096));
    metrics.leads("at", true);
    metrics.reconciled("at", Outcome::Success, Duration::from_millis(20));
    metrics.reconciled("at", Outcome::Panic, Duration::from_millis(1));
    metrics.reconciled("at", Outcome::Error, Duration::from_secs(120));
    metrics.reconciled("at", Outcome::Terminal, Duration::from_millis(1));
    metrics.workers("at", 3);
    let _working = metrics.working("at");
    metrics.asked(&http::Method::GET, Some(200));
    let built: prometheus_client::metrics::counter::Counter = Default::default();
    built.inc_by(4);
    metrics.register("websites_built", "Websites that were built", built);
    let (_trigger, address, _serving) = start(Health::default(), metrics).await;
    let (code, page) = ask(address, "GET", "/metrics").await;
    assert_eq!(code, 200);
    for line in [
        r#"workqueue_depth{name="at",controller="at"} 2"#,
        r#"workqueue_adds_total{name="at",controller="at"} 2"#,
        r#"workqueue_oldest_wait_seconds{name="at",controller="at"} "#,
        r#"workqueue_longest_running_processor_seconds{name="at",controller="at"} 0"#,
        r#"controller_runtime_reconcile_total{controller="at",result="success"} 1"#,
        r#"controller_runtime_reconcile_total{controller="at",result="panic"} 1"#,
        r#"controller_runtime_reconcile_errors_total{controller="at"} 2"#,
        r#"controller_runtime_terminal_reconcile_errors_total{controller="at"} 1"#,
        r#"controller_runtime_active_workers{controller="at"} 1"#,
        r#"controller_runtime_max_concurrent_reconciles{controller="at"} 3"#,
        r#"workqueue_queue_duration_seconds_count{name="at",controller="at"} 0"#,
        r#"workqueue_work_duration_seconds_count{name="at",controller="at"} 0"#,
        r#"workqueue_unfinished_work_seconds{name="at",controller="at"} 0"#,
        r#"rest_client_requests_total{code="200",method="GET"} 1"#,
        r#"websites_built_total 4"#,
        r#"controller_runtime_reconcile_time_seconds_bucket{le="+Inf",controller="at"} 4"#,
        r#"leader_election_master_status{name="at"} 1"#,
        r#"pintle_informer_objects{kind="Pod"} 7"#,
        r#"pintle_informer_bytes{kind="Pod"} 4096"#,
        "# EOF",
    ] {
        assert!(page.contains(line), "{line} is not in:\n{page}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_said_and_nothing_can_be_sent() {
    let (_trigger, address, _serving) = start(Health::default(), Metrics::default()).await;
    assert_eq!(ask(address, "GET", "/").await.0, 404);
    assert_eq!(ask(address, "GET", "/metrics/more").await.0, 404);
    assert_eq!(ask(address, "POST", "/metrics").await.0, 405);
    assert_eq!(ask(address, "HEAD", "/healthz").await, (200, String::new()));
    assert_eq!(ask(address, "GET", "no path").await.0, 400);
}
