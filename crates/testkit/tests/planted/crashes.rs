//! Bugs that show when the controller is lost at the wrong moment: a crash at every write finds them.

use crate::{Hands, Planted, create_site, data, delete_site, of};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::ResourceExt;
use kube::api::PostParams;
use pintle_runtime::{Action, Error, Key, write};
use pintle_testkit::Scenario;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

type Reconciled = BoxFuture<'static, Result<Action, Error>>;

/// The sweep of the wrong one fails with these words, and the right one passes sweep and seeds.
fn found_by_sweep(wrong: &Scenario, right: &Scenario, words: &[&str]) {
    let report = wrong.try_sweep().expect_err("the bug was not found");
    for word in words {
        assert!(report.contains(word), "{word:?} is not in the report: {report}");
    }
    right.sweep();
    right.explore(1..9);
}

fn installs(planted: Planted) -> Scenario {
    of(planted).steps(|cluster| async move { create_site(&cluster, "a", json!({})).await })
}

fn marks_before_it_installs(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if !site.annotations().contains_key("installed") {
            hands.annotate(&site, "installed", "true").await?;
            hands.ensure(key.name(), "a-database").await?;
            hands.ensure(key.name(), "a-web").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn marks_after_it_installs(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        hands.ensure(key.name(), "a-database").await?;
        hands.ensure(key.name(), "a-web").await?;
        hands.annotate(&site, "installed", "true").await?;
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn intermediate_state_a_half_done_installation_is_never_finished() {
    let (wrong, right) = (Planted::new(marks_before_it_installs), Planted::new(marks_after_it_installs));
    let words = ["after its write 1 (PATCH configmaps/default/a)", "a-web is missing"];
    found_by_sweep(&installs(wrong), &installs(right), &words);
}

fn makes_a_child_with_a_drawn_name(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if !site.annotations().contains_key("child") {
            let mut child = crate::child_of(key.name(), "");
            (child.metadata.name, child.metadata.generate_name) = (None, Some(format!("{}-", key.name())));
            hands.secrets().create(&PostParams::default(), &child).await?;
            hands.annotate(&site, "child", "made").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn makes_a_child_with_its_own_name(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        hands.ensure(key.name(), "a-child").await?;
        hands.annotate(&site, "child", "made").await?;
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn a_create_that_is_not_idempotent_is_made_twice_when_its_answer_is_lost() {
    let wrong = installs(Planted::new(makes_a_child_with_a_drawn_name));
    let right = installs(Planted::new(makes_a_child_with_its_own_name));
    found_by_sweep(&wrong, &right, &["after its write 1 (POST secrets/default)", "is too many"]);
    // A lost answer finds it too, with no crash at all.
    assert!(wrong.try_explore(1..60).unwrap_err().contains("is too many"));
}

const HOLD: &str = "example.com/hold";

fn goes(planted: Planted) -> Scenario {
    of(planted).steps(|cluster| async move {
        create_site(&cluster, "a", json!({})).await;
        cluster.settle().await;
        delete_site(&cluster, "a").await;
    })
}

fn lets_go_before_it_cleans_up(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if site.metadata.deletion_timestamp.is_some() {
            write::remove_finalizer(&hands.sites(), &site.metadata, HOLD).await?;
            hands.remove("a-bucket").await?;
        } else {
            write::add_finalizer(&hands.sites(), &site.metadata, HOLD).await?;
            hands.ensure(key.name(), "a-bucket").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn cleans_up_before_it_lets_go(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if site.metadata.deletion_timestamp.is_some() {
            hands.remove("a-bucket").await?;
            write::remove_finalizer(&hands.sites(), &site.metadata, HOLD).await?;
        } else if !write::has_finalizer(&site.metadata, HOLD) {
            // The change wakes it again; what it makes is held from before it is there.
            write::add_finalizer(&hands.sites(), &site.metadata, HOLD).await?;
        } else {
            hands.ensure(key.name(), "a-bucket").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn a_finalizer_taken_off_before_the_cleanup_leaves_things_behind() {
    let wrong = goes(Planted::new(lets_go_before_it_cleans_up));
    let right = goes(Planted::new(cleans_up_before_it_lets_go));
    found_by_sweep(&wrong, &right, &["a-bucket is too many"]);
}

fn cleans_up_when_it_sees_the_end(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        match hands.sites.get(&key) {
            Some(_) => hands.ensure(key.name(), "a-bucket").await?,
            None => hands.remove("a-bucket").await?,
        }
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn cleaning_up_only_on_the_delete_event_leaves_things_behind_when_it_is_missed() {
    let wrong = goes(Planted::new(cleans_up_when_it_sees_the_end));
    // Each child names its site, so that one without a site is seen too.
    let right = goes(Planted::new(cleans_up_when_it_sees_the_end).watching_children());
    found_by_sweep(&wrong, &right, &["a long time down", "a-bucket is too many"]);
}

fn waits_in_memory(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if !site.annotations().contains_key("scheduled") {
            hands.annotate(&site, "scheduled", "true").await?;
            hands.memory.lock().unwrap().insert(key.name().to_owned(), hands.clock.now_rfc3339());
            return Ok(Action::requeue_after(Duration::from_secs(data(&site, "after").parse().unwrap_or(0))));
        }
        let since = hands.memory.lock().unwrap().get(key.name()).cloned();
        if since.is_some_and(|since| since != hands.clock.now_rfc3339()) {
            hands.ensure(key.name(), "a-result").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn waits_for_what_is_written(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        hands.annotate(&site, "scheduled", "true").await?;
        let after = Duration::from_secs(data(&site, "after").parse().unwrap_or(0));
        let began = site.creation_timestamp().map(|time| time.0).unwrap_or_default();
        let passed = Duration::try_from(hands.clock.now().duration_since(began)).unwrap_or_default();
        if passed < after {
            return Ok(Action::requeue_after(after - passed));
        }
        hands.ensure(key.name(), "a-result").await?;
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn a_time_kept_in_memory_is_lost_with_it() {
    let waits = |planted| {
        of(planted).steps(|cluster| async move {
            create_site(&cluster, "a", json!({"after": "30"})).await;
            cluster.advance(Duration::from_secs(60)).await;
        })
    };
    let (wrong, right) = (Planted::new(waits_in_memory), Planted::new(waits_for_what_is_written));
    found_by_sweep(&waits(wrong), &waits(right), &["after its write 1", "a-result is missing"]);
}
