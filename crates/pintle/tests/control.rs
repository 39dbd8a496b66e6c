//! `pintle up --ephemeral --control` as tests of operators in other languages meet it: over real sockets, in virtual time.

mod harness;
#[path = "../../../xtask/src/test/skip.rs"]
mod skip;

use futures::{AsyncBufReadExt, StreamExt, TryStreamExt};
use harness::program::{Place, Program};
use harness::{PATIENCE, eventually};
use jiff::Timestamp;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::process::Command;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const HELPERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/control");

async fn client(kubeconfig: Kubeconfig) -> Client {
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let mut config = config.expect("a config");
    // A client that tries again by itself would hide what it met.
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

/// A cluster whose time stands still.
async fn up(place: &Place) -> (Program, Client) {
    let program = place.up(&["--ephemeral", "--control"]).await;
    let client = client(Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig")).await;
    ok(&client, "POST", "/control/time", json!({"mode": "manual"})).await;
    (program, client)
}

fn request(agent: &str, method: &str, path: &str, body: &Value) -> http::Request<Vec<u8>> {
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let builder = http::Request::builder().method(method).uri(path);
    let builder = builder.header("user-agent", agent).header("content-type", media);
    builder.body(if body.is_null() { Vec::new() } else { body.to_string().into_bytes() }).expect("a request")
}

/// The code, and the answer or the message; 0 when there was no answer.
async fn ask(client: &Client, agent: &str, method: &str, path: &str, body: Value) -> (u16, Value) {
    match client.request::<Value>(request(agent, method, path, &body)).await {
        Ok(answer) => (200, answer),
        Err(kube::Error::Api(status)) => (status.code, status.message.clone().into()),
        Err(broken) => (0, broken.to_string().into()),
    }
}

async fn ok(client: &Client, method: &str, path: &str, body: Value) -> Value {
    let (code, answer) = ask(client, "test", method, path, body).await;
    assert_eq!(code, 200, "{method} {path}: {answer}");
    answer
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn moment(answer: &Value) -> Timestamp {
    answer["now"].as_str().and_then(|now| now.parse().ok()).unwrap_or_else(|| panic!("{answer}"))
}

#[tokio::test]
async fn without_the_flag_there_is_no_control_and_the_flag_needs_a_cluster_that_keeps_nothing() {
    let place = Place::new();
    let mut refused = place.start(&["up", "--control", "--listen", "127.0.0.1:0"]);
    let ended = tokio::time::timeout(PATIENCE, refused.child.wait()).await.expect("it ends").expect("its state");
    assert_eq!(ended.code(), Some(2));
    assert!(refused.stderr().contains("--ephemeral"), "{}", refused.stderr());
    let mut help = place.start(&["up", "--help"]);
    tokio::time::timeout(PATIENCE, help.child.wait()).await.expect("it ends").expect("its state");
    assert!(help.stdout().contains("--control"), "{}", help.stdout());

    let _program = place.up(&["--ephemeral"]).await;
    let client = client(Kubeconfig::read_from(place.path("kubeconfig")).expect("a kubeconfig")).await;
    assert_eq!(ask(&client, "test", "GET", "/control/time", Value::Null).await.0, 404);
}

#[tokio::test]
async fn time_stands_until_it_is_moved_and_then_loops_and_timers_follow() {
    let place = Place::new();
    let (_program, client) = up(&place).await;
    let before = ok(&client, "GET", "/control/time", Value::Null).await;
    ok(&client, "POST", "/control/settle", json!({"quiet": "100ms", "virtualQuiet": "0s"})).await;
    let after = ok(&client, "GET", "/control/time", Value::Null).await;
    assert_eq!((&before["now"], &after["mode"]), (&after["now"], &json!("manual")));

    let pod = json!({"metadata": {"name": "job", "annotations": {"simulated.pintle.dev/run-for": "10m"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let phase = async || ok(&client, "GET", "/api/v1/namespaces/default/pods/job", Value::Null).await["status"].clone();
    ok(&client, "POST", "/api/v1/namespaces/default/pods", pod).await;
    let settled = ok(&client, "POST", "/control/settle", Value::Null).await;
    assert_eq!(phase().await["phase"], "Running");
    let advanced = ok(&client, "POST", "/control/advance", json!({"by": "9m", "step": "30s"})).await;
    assert_eq!(moment(&advanced).duration_since(moment(&settled)).as_secs(), 540, "{advanced}");
    assert_eq!((&advanced["steps"], &phase().await["phase"]), (&json!(18), &json!("Running")));
    ok(&client, "POST", "/control/advance", json!({"by": "2m"})).await;
    ok(&client, "POST", "/control/settle", Value::Null).await;
    assert_eq!(phase().await["phase"], "Succeeded");

    let following = ok(&client, "POST", "/control/time", json!({"mode": "follow"})).await;
    assert!(place.kubectl().ok("get --raw /control/time").await.contains("follow"));
    eventually("time follows the machine's", async || {
        let now = ok(&client, "GET", "/control/time", Value::Null).await;
        if moment(&now) > moment(&following) { Ok(()) } else { Err(now.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn a_cluster_that_never_rests_is_told_who_writes_and_what_flips() {
    let place = Place::new();
    let (_program, client) = up(&place).await;
    ok(&client, "POST", MAPS, map("a")).await;
    let painter = tokio::spawn({
        let client = client.clone();
        async move {
            for colour in ["red", "blue"].iter().cycle() {
                let patch = json!({"metadata": {"annotations": {"colour": colour}}});
                ask(&client, "painter/1", "PATCH", &format!("{MAPS}/a"), patch).await;
            }
        }
    });
    let (code, report) = ask(&client, "test", "POST", "/control/settle", json!({"timeout": "2s"})).await;
    painter.abort();
    assert_eq!(code, 408, "{report}");
    for part in ["/registry/configmaps/default/a", "written by painter (PATCH)", "annotations.colour goes", "\"red\""] {
        assert!(report.as_str().unwrap_or_default().contains(part), "{part} is not in {report}");
    }
    ok(&client, "POST", "/control/settle", Value::Null).await;
}

#[tokio::test]
async fn each_fault_meets_the_client_it_was_planned_for() {
    let place = Place::new();
    let (_program, client) = up(&place).await;
    let plan = async |body: Value| ok(&client, "POST", "/control/faults", body).await;
    let create = async |name: &str| ask(&client, "my-operator/1", "POST", MAPS, map(name)).await.0;
    let is_there =
        async |name: &str| ask(&client, "test", "GET", &format!("{MAPS}/{name}"), Value::Null).await.0 == 200;

    plan(json!({"agent": "my-op", "fault": "fail", "nth": 2, "times": 2, "code": 409})).await;
    assert_eq!((create("a").await, create("b").await, create("b").await), (200, 409, 409));
    assert!(create("b").await == 200 && ask(&client, "other", "POST", MAPS, map("c")).await.0 == 200);
    let counts = ok(&client, "GET", "/control/faults", Value::Null).await["faults"][0].clone();
    assert_eq!((&counts["seen"], &counts["met"], &counts["agent"]), (&json!(4), &json!(2), &json!("my-op")));
    assert_eq!(ok(&client, "DELETE", "/control/faults", Value::Null).await, json!({"faults": []}));

    plan(json!({"agent": "my-operator", "fault": "timeout", "resource": "configmaps"})).await;
    assert!(create("d").await == 504 && is_there("d").await, "carried out, and the answer says that nobody knows");
    plan(json!({"agent": "my-operator", "fault": "lose"})).await;
    assert!(create("e").await == 0 && is_there("e").await, "carried out, and the connection breaks");
    plan(json!({"agent": "my-operator", "fault": "fail", "code": 503, "reads": true})).await;
    assert_eq!(ask(&client, "my-operator/1", "GET", MAPS, Value::Null).await.0, 503);
    ok(&client, "DELETE", "/control/faults", Value::Null).await;

    let list = ok(&client, "GET", MAPS, Value::Null).await;
    let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
    let watch = async || {
        let path = format!("{MAPS}?watch=true&resourceVersion={version}");
        client.request_stream(request("my-operator/1", "GET", &path, &Value::Null)).await.expect("a watch").lines()
    };
    let mut lines = watch().await;
    plan(json!({"agent": "my-operator", "fault": "merge", "for": "1m"})).await;
    for (method, path, body) in [
        ("POST", MAPS.to_owned(), map("f")),
        ("PATCH", format!("{MAPS}/f"), json!({"data": {"round": "1"}})),
        ("PATCH", format!("{MAPS}/f"), json!({"data": {"round": "2"}})),
    ] {
        ok(&client, method, &path, body).await;
    }
    ok(&client, "POST", "/control/advance", json!({"by": "2m"})).await;
    let line = tokio::time::timeout(PATIENCE, lines.next()).await.expect("a line").expect("more").expect("a line");
    let event: Value = serde_json::from_str(&line).expect("an event");
    assert_eq!((&event["type"], &event["object"]["data"]["round"]), (&json!("ADDED"), &json!("2")), "{event}");

    plan(json!({"agent": "my-operator", "fault": "drop", "for": "1m"})).await;
    ok(&client, "POST", MAPS, map("g")).await;
    ok(&client, "POST", "/control/advance", json!({"by": "2m"})).await;
    let line = tokio::time::timeout(PATIENCE, lines.next()).await.expect("a line").expect("more").expect("a line");
    assert!(line.contains("\"code\":410"), "{line}");

    let lines = watch().await;
    plan(json!({"agent": "my-operator", "fault": "sever"})).await;
    assert!(create("h").await == 0 && is_there("h").await);
    let end = tokio::time::timeout(PATIENCE, lines.try_collect::<Vec<String>>()).await;
    assert!(end.is_ok(), "the watch of the same client is cut too");

    plan(json!({"agent": "my-operator", "fault": "hold"})).await;
    let mut lines = watch().await;
    assert!(tokio::time::timeout(Duration::from_millis(100), lines.next()).await.is_err(), "it sees nothing");
    ok(&client, "DELETE", "/control/faults", Value::Null).await;
    assert!(tokio::time::timeout(PATIENCE, lines.next()).await.expect("it sees again").is_some());
}

#[tokio::test]
async fn a_fork_is_a_cluster_of_its_own_and_a_snapshot_tells_them_apart() {
    let place = Place::new();
    let (_program, client) = up(&place).await;
    ok(&client, "POST", MAPS, map("a")).await;
    ok(&client, "POST", "/control/settle", Value::Null).await;
    let snapshot = async |client: &Client| ok(client, "POST", "/control/snapshot", Value::Null).await;
    let trace = ok(&client, "GET", "/control/trace", Value::Null).await["hash"].clone();
    assert_eq!(trace.as_str().map(str::len), Some(16));

    let fork = ok(&client, "POST", "/control/fork", Value::Null).await;
    let kubeconfig = Kubeconfig::from_yaml(fork["kubeconfig"].as_str().expect("a kubeconfig")).expect("a kubeconfig");
    let copy = self::client(kubeconfig).await;
    assert_eq!(snapshot(&copy).await["objects"], snapshot(&client).await["objects"]);
    ok(&copy, "DELETE", &format!("{MAPS}/a"), Value::Null).await;
    ok(&copy, "POST", "/control/settle", Value::Null).await;
    let key = "/registry/configmaps/default/a";
    assert!(snapshot(&copy).await["objects"].get(key).is_none() && snapshot(&client).await["objects"][key].is_object());
    assert_ne!(ok(&copy, "GET", "/control/trace", Value::Null).await["hash"], trace);

    let path = format!("/control/forks/{}", fork["id"].as_str().expect("an id"));
    assert_eq!(ok(&client, "GET", "/control/forks", Value::Null).await["forks"][0]["id"], fork["id"]);
    assert_eq!(ask(&copy, "test", "DELETE", &path, Value::Null).await.0, 400, "a fork does not end itself");
    ok(&client, "DELETE", &path, Value::Null).await;
    assert_eq!(ask(&client, "test", "DELETE", &path, Value::Null).await.0, 404);
    eventually("the fork is gone", async || match ask(&copy, "test", "GET", "/readyz", Value::Null).await {
        (0, message) if message.as_str().unwrap_or_default().contains("onnect") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    ok(&client, "GET", MAPS, Value::Null).await;
}

#[tokio::test]
async fn what_is_wrong_with_a_request_is_answered_with_the_name_of_the_field() {
    let place = Place::new();
    let (_program, client) = up(&place).await;
    for (method, path, body, code, says) in [
        ("POST", "advance", json!({}), 422, "by: missing"),
        ("POST", "advance", json!({"by": "soon"}), 422, "by: \"soon\" is no duration"),
        ("POST", "advance", json!({"by": "-1h"}), 422, "by: "),
        ("POST", "advance", json!({"by": "900000h"}), 422, "by: more than ten years"),
        ("POST", "advance", json!({"by": "1h", "step": "0s"}), 422, "step: "),
        ("POST", "settle", json!({"quite": "1s"}), 422, "quite: no such field"),
        ("POST", "settle", json!([]), 400, "no JSON object"),
        ("POST", "time", json!({"mode": "fast"}), 422, "mode: \"fast\" is neither"),
        ("POST", "faults", json!({"fault": "fail"}), 422, "agent: missing"),
        ("POST", "faults", json!({"agent": "a/1", "fault": "fail"}), 422, "agent: "),
        ("POST", "faults", json!({"agent": "a", "fault": "explode"}), 422, "fault: \"explode\" is none"),
        ("POST", "faults", json!({"agent": "a", "fault": "fail", "code": 404}), 422, "code: 404 is none of"),
        ("POST", "faults", json!({"agent": "a", "fault": "fail", "code": 409, "nth": 0}), 422, "nth: "),
        ("POST", "faults", json!({"agent": "a", "fault": "drop"}), 422, "for: missing"),
        ("POST", "faults", json!({"agent": "a", "fault": "hold", "code": 409}), 422, "code: no such field"),
        ("POST", "snapshot", json!({"now": true}), 422, "now: no such field"),
        ("POST", "fork", json!({"now": true}), 422, "now: no such field"),
        ("GET", "settle", Value::Null, 405, "method"),
        ("POST", "trace", Value::Null, 405, "method"),
        ("GET", "forks/1", Value::Null, 405, "method"),
        ("GET", "tiem", Value::Null, 404, "docs/control.md"),
    ] {
        let (got, message) = ask(&client, "test", method, &format!("/control/{path}"), body.clone()).await;
        let fits = got == code && message.as_str().unwrap_or_default().contains(says);
        assert!(fits, "{method} {path} {body}: {got} {message}");
    }
    assert_eq!(ok(&client, "GET", "/control/faults", Value::Null).await, json!({"faults": []}));
    let nobody = place.kubectl().run("get --raw /control/time --as nobody").await;
    assert!(nobody.stderr.contains("Forbidden"), "{nobody}");
}

/// Whether a program is on this machine; the test is reported as skipped if it is not.
async fn exists(program: &str) -> bool {
    let there = Command::new(program).arg("version").output().await.is_ok();
    if !there {
        skip::skip(&[program]);
    }
    there
}

async fn passes(mut command: Command) {
    let output = tokio::time::timeout(PATIENCE * 4, command.kill_on_drop(true).output()).await;
    let output = output.expect("it ends").expect("it starts");
    let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("passed"), "{said}");
}

#[tokio::test]
async fn the_operator_in_python_of_the_guide_is_tested_as_the_guide_says() {
    if !exists("python3").await {
        return;
    }
    let place = Place::new();
    let (_program, _) = up(&place).await;
    let mut command = Command::new("python3");
    command.args(["-B", "example_test.py"]).arg(place.path("kubeconfig")).current_dir(HELPERS);
    passes(command).await;
}

#[tokio::test]
async fn the_helper_for_go_settles_advances_plans_and_forks() {
    if !exists("go").await {
        return;
    }
    let place = Place::new();
    let (_program, _) = up(&place).await;
    let directory = place.path("example");
    let write = |name: &str, text: &str| std::fs::write(directory.join(name), text).expect("a file");
    std::fs::create_dir_all(directory.join("pintlecontrol")).expect("a directory");
    let helper = std::fs::read_to_string(Path::new(HELPERS).join("pintlecontrol.go")).expect("the helper");
    write("pintlecontrol/pintlecontrol.go", &helper);
    write("go.mod", "module example\n\ngo 1.21\n");
    write("main.go", include_str!("control/main.go"));
    let mut vet = Command::new("sh");
    vet.args(["-c", "go vet ./... && echo passed"]).current_dir(&directory);
    passes(vet).await;
    let mut run = Command::new("go");
    run.args(["run", "."]).arg(place.path("kubeconfig")).current_dir(&directory);
    passes(run).await;
}
