//! Tests of the faults over plain `http`, with no client and no cluster.

use super::watches::merged;
use super::*;
use std::convert::Infallible;
use std::sync::atomic::AtomicU64;

fn request(method: &str, path: &str) -> Request<()> {
    Request::builder().method(method).uri(path).header("user-agent", "at/pintle").body(()).unwrap()
}

/// A server that counts what reaches it.
async fn ask(faults: &Faults, reached: &AtomicU64, method: &str, path: &str) -> Option<u16> {
    let answer = faults.request(request(method, path), |_| async {
        reached.fetch_add(1, Ordering::SeqCst);
        Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
    });
    match tokio::time::timeout(Duration::from_secs(60), answer).await {
        Ok(Ok(response)) => Some(response.status().as_u16()),
        Ok(Err(Broken::Lost | Broken::Severed)) => Some(0),
        Ok(Err(Broken::Inner(never))) => match never {},
        Err(_) => None,
    }
}

#[tokio::test(start_paused = true)]
async fn each_fault_meets_the_request_it_was_planned_for_and_says_truly_whether_it_was_done() {
    let pod = "/api/v1/namespaces/a/pods/b";
    type Case = (fn(On), [Option<u16>; 3], u64);
    let cases: [Case; 7] = [
        (|on| on.fail(2, 1, 409), [Some(200), Some(409), Some(200)], 2),
        (|on| on.fail(1, 2, 429), [Some(429), Some(429), Some(200)], 1),
        (|on| on.lose_answer(2), [Some(200), Some(0), Some(200)], 3),
        (|on| on.time_out(3), [Some(200), Some(200), Some(504)], 3),
        (|on| on.crash_after_write(2), [Some(200), None, Some(200)], 3),
        (|on| on.crash_before_write(2), [Some(200), None, Some(200)], 2),
        (|on| on.to("nodes").fail(1, 9, 500), [Some(200); 3], 3),
    ];
    for (index, (plan, answers, done)) in cases.into_iter().enumerate() {
        let (faults, reached) = (Faults::default(), AtomicU64::new(0));
        plan(faults.on("at"));
        for wanted in answers {
            assert_eq!(ask(&faults, &reached, "PUT", pod).await, wanted, "case {index}");
        }
        assert_eq!(reached.load(Ordering::SeqCst), done, "case {index}");
        assert_eq!(ask(&faults, &reached, "GET", pod).await, Some(200), "reads are left alone");
    }
}

#[tokio::test(start_paused = true)]
async fn another_loop_is_left_alone() {
    let (faults, reached) = (Faults::default(), AtomicU64::new(0));
    faults.on("somebody-else").fail(1, 99, 500);
    assert_eq!(ask(&faults, &reached, "PUT", "/api/v1/nodes/n").await, Some(200));
}

fn line(kind: &str, uid: &str, value: u64) -> Bytes {
    let object = serde_json::json!({"metadata": {"uid": uid, "resourceVersion": value.to_string()}});
    Bytes::from(format!("{}\n", serde_json::json!({"type": kind, "object": object})))
}

#[test]
fn merging_keeps_the_last_change_of_each_life() {
    let lines = vec![
        line("ADDED", "a", 1),
        line("MODIFIED", "b", 2),
        line("MODIFIED", "a", 3),
        line("MODIFIED", "b", 4),
        line("DELETED", "b", 5),
        line("ADDED", "c", 6),
    ];
    let wanted = vec![line("ADDED", "a", 3), line("MODIFIED", "b", 4), line("DELETED", "b", 5), line("ADDED", "c", 6)];
    assert_eq!(merged(lines), wanted);
}

/// The lines a watcher has seen within a second of each moment.
async fn watched(plan: impl FnOnce(&Faults), moments: &[u64]) -> Vec<Vec<String>> {
    let faults = Faults::default();
    plan(&faults);
    let source = futures::stream::unfold(0u64, |at| async move {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let kind = if at == 0 { "ADDED" } else { "MODIFIED" };
        (at < 5).then(|| (Ok::<_, Infallible>(http_body::Frame::data(line(kind, "a", at))), at + 1))
    });
    let body = http_body_util::StreamBody::new(source);
    let watch = faults
        .request(request("GET", "/api/v1/pods?watch=true"), |_| async { Ok::<_, Infallible>(Response::new(body)) });
    let Ok(response) = watch.await else { panic!("the watch was refused") };
    let (mut body, started, mut seen) = (response.into_body(), tokio::time::Instant::now(), Vec::new());
    for moment in moments {
        let mut now = Vec::new();
        while let Ok(Some(frame)) =
            tokio::time::timeout_at(started + Duration::from_millis(*moment), body.frame()).await
        {
            let data = frame.unwrap().into_data().unwrap();
            let event: serde_json::Value = serde_json::from_slice(&data).unwrap();
            let version = event["object"]["metadata"]["resourceVersion"].as_str();
            now.push(format!("{}{}", &event["type"].as_str().unwrap()[..1], version.unwrap_or_default()));
        }
        seen.push(now);
    }
    seen
}

#[tokio::test(start_paused = true)]
async fn a_blind_loop_sees_late_or_less_or_lists_again() {
    let long = Duration::from_millis(3500);
    let plain = watched(|_| (), &[3400, 3600, 9000]).await;
    assert_eq!(plain, [vec!["A0", "M1", "M2"], vec![], vec!["M3", "M4"]]);
    let held = watched(|faults| faults.on("at").hold_watch(long), &[3400, 3600, 9000]).await;
    assert_eq!(held, [vec![], vec!["A0", "M1", "M2"], vec!["M3", "M4"]]);
    let merged = watched(|faults| faults.on("at").merge_events(long), &[3400, 3600, 9000]).await;
    assert_eq!(merged, [vec![], vec!["A2"], vec!["M3", "M4"]]);
    let lost = watched(|faults| faults.on("at").drop_events(long), &[3400, 3600, 9000]).await;
    assert_eq!(lost, [vec![], vec!["E"], vec![]]);
    let late = watched(|faults| faults.on("at").delay_events(Duration::from_millis(900)), &[9000]).await;
    assert_eq!(late, [vec!["A0", "M1", "M2", "M3", "M4"]]);
}
