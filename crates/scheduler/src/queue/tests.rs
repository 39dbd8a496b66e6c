//! Who is tried when, in virtual time.

use std::time::Duration;

use serde_json::json;
use tokio::time::advance;

use super::*;
use crate::plugins;
use crate::testing::pod;

fn queue() -> Queue {
    Queue::new(plugins::all(Default::default()).iter().map(|plugin| (plugin.name(), plugin.helped_by())).collect())
}

async fn name(queue: &Queue) -> String {
    queue.next().await.key.name().to_owned()
}

fn is_idle(queue: &Queue) -> bool {
    use futures::FutureExt;
    queue.next().now_or_never().is_none()
}

#[tokio::test(start_paused = true)]
async fn priority_comes_first_then_who_came_first() {
    let queue = queue();
    queue.put(pod("early", json!({})));
    queue.put(pod("late", json!({})));
    queue.put(pod("urgent", json!({"priority": 10})));
    queue.put(pod("early", json!({})));
    assert_eq!([name(&queue).await, name(&queue).await, name(&queue).await], ["urgent", "early", "late"]);
    assert!(is_idle(&queue));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_fits_nowhere_is_tried_when_something_may_help_it_and_not_too_soon() {
    let queue = queue();
    queue.put(pod("big", json!({})));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let big = queue.next().await;
        queue.park(&big, &["NodeResourcesFit"].into());
        queue.happened(Event::PodPlaced);
        assert_eq!(queue.depth().unschedulable, 1, "one more Pod helps no one to room");
        queue.happened(Event::PodRemoved);
        assert_eq!((queue.depth().unschedulable, queue.depth().backing_off), (0, 1));
        let began = Instant::now();
        let big = queue.next().await;
        waits.push(began.elapsed().as_secs());
        queue.retry(&big);
    }
    assert_eq!(waits, [1, 4, 10, 10, 10, 10]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_of_which_nobody_could_be_told_why_it_waits_is_tried_again_soon() {
    let queue = queue();
    queue.put(pod("big", json!({})));
    let big = queue.next().await;
    queue.park(&big, &["NodeResourcesFit"].into());
    queue.unpark(&big);
    let began = Instant::now();
    assert_eq!((name(&queue).await.as_str(), began.elapsed().as_secs()), ("big", 1));
    queue.unpark(&big);
    assert!(is_idle(&queue), "a Pod that is being tried is not tried twice");
}

#[tokio::test(start_paused = true)]
async fn help_that_comes_late_is_taken_at_once() {
    let queue = queue();
    queue.put(pod("picky", json!({})));
    let picky = queue.next().await;
    queue.park(&picky, &["NodeAffinity"].into());
    advance(Duration::from_secs(60)).await;
    assert!(is_idle(&queue));
    queue.happened(Event::NodeChanged);
    assert_eq!(name(&queue).await, "picky");
}

#[tokio::test(start_paused = true)]
async fn without_help_it_is_tried_after_five_minutes() {
    let queue = queue();
    queue.put(pod("picky", json!({})));
    let picky = queue.next().await;
    queue.park(&picky, &["NodeAffinity"].into());
    let began = Instant::now();
    assert_eq!(name(&queue).await, "picky");
    assert_eq!(began.elapsed().as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_gated_pod_waits_for_its_gates_to_go() {
    let queue = queue();
    queue.put(pod("gated", json!({"schedulingGates": [{"name": "g"}]})));
    assert!(is_idle(&queue));
    assert_eq!(queue.depth().gated, 1);
    queue.put(pod("gated", json!({})));
    assert_eq!(name(&queue).await, "gated");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_was_changed_while_it_was_tried_is_tried_again() {
    let queue = queue();
    queue.put(pod("p", json!({"nodeSelector": {"zone": "nowhere"}})));
    let tried = queue.next().await;
    queue.put(pod("p", json!({})));
    queue.park(&tried, &["NodeAffinity"].into());
    assert_eq!(queue.depth(), Depth { backing_off: 1, ..Depth::default() });
    assert!(queue.next().await.spec().unwrap().node_selector.is_none());
}

#[tokio::test(start_paused = true)]
async fn what_is_gone_is_not_tried_again() {
    let queue = queue();
    queue.put(pod("p", json!({})));
    let tried = queue.next().await;
    queue.remove(&tried.key, "another");
    queue.remove(&tried.key, &tried.uid);
    queue.park(&tried, &[].into());
    queue.retry(&tried);
    queue.happened(Event::NodeAdded);
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test(start_paused = true)]
async fn a_pod_for_which_others_leave_is_not_tried_before_all_are_on_their_way() {
    for (happens, failed, tried) in [(true, false, true), (false, false, false), (false, true, true)] {
        let queue = queue();
        queue.put(pod("p", json!({})));
        let tried_pod = queue.next().await;
        queue.hold(&tried_pod);
        queue.park(&tried_pod, &["NodeResourcesFit"].into());
        if happens {
            queue.happened(Event::PodRemoved);
        }
        advance(Duration::from_secs(30)).await;
        assert!(is_idle(&queue), "it is held");
        queue.release(&tried_pod, failed);
        assert_eq!(!is_idle(&queue), tried, "{happens} {failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_helped_a_pod_while_extenders_were_asked_about_it_is_not_missed() {
    let queue = queue();
    for (event, helps) in [(Event::PodRemoved, true), (Event::NamespaceChanged, false)] {
        queue.put(pod("p", json!({})));
        let moment = queue.moment();
        let tried = queue.next().await;
        queue.happened(event);
        queue.park_since(&tried, &["NodeResourcesFit"].into(), moment);
        assert_eq!(queue.depth().backing_off, usize::from(helps), "{event:?}");
        queue.remove(&tried.key, &tried.uid);
    }
}
