//! Bugs that show when the controller sees the world late, merged or refused: faults drawn from seeds find them.

use crate::{Hands, Planted, bare, create_site, data, delete_site, edit_site, of};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams, PostParams};
use pintle_runtime::{Action, ApiError, Error, Key, owner};
use pintle_testkit::Scenario;
use serde_json::json;
use std::sync::Arc;

type Reconciled = BoxFuture<'static, Result<Action, Error>>;

/// Some seed finds the wrong one, with these words in the report; all seeds pass with the right one.
fn found_by_seeds(wrong: &Scenario, right: &Scenario, words: &str) {
    let report = wrong.try_explore(1..100).expect_err("the bug was not found");
    assert!(report.contains(words) && report.contains("PINTLE_SEED="), "{report}");
    right.sweep();
    right.explore(1..25);
}

fn counts_in_its_cache(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        let wanted: usize = data(&site, "replicas").parse().unwrap_or(0);
        let there = hands.children.all().iter().filter(|child| crate::site_of(child).as_ref() == Some(&key)).count();
        for _ in there..wanted {
            let mut child = crate::child_of(key.name(), "");
            (child.metadata.name, child.metadata.generate_name) = (None, Some(format!("{}-", key.name())));
            hands.secrets().create(&PostParams::default(), &child).await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn numbers_its_children(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        let wanted: usize = data(&site, "replicas").parse().unwrap_or(0);
        for number in 0..wanted {
            hands.ensure(key.name(), &format!("{}-{number}", key.name())).await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn stale_state_a_count_in_a_cache_that_is_behind_makes_too_many() {
    let grows = |planted| {
        of(planted).steps(|cluster| async move {
            create_site(&cluster, "a", json!({"replicas": "2"})).await;
            cluster.settle().await;
            edit_site(&cluster, "a", json!({"replicas": "3"})).await;
        })
    };
    let (wrong, right) = (Planted::new(counts_in_its_cache), Planted::new(numbers_its_children));
    found_by_seeds(&grows(wrong), &grows(right), "is too many");
}

fn waits_for_an_edge(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        let phase = data(&site, "phase").to_owned();
        let before = hands.memory.lock().unwrap().insert(key.name().to_owned(), phase.clone());
        if before.as_deref() == Some("running") && phase == "done" {
            hands.ensure(key.name(), "a-report").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

fn looks_at_the_level(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        if data(&site, "phase") == "done" {
            hands.ensure(key.name(), "a-report").await?;
        }
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn unobserved_state_an_edge_that_was_merged_away_is_never_acted_on() {
    let ends = |planted| {
        of(planted).steps(|cluster| async move {
            create_site(&cluster, "a", json!({"phase": "new"})).await;
            cluster.settle().await;
            edit_site(&cluster, "a", json!({"phase": "running"})).await;
            cluster.advance(std::time::Duration::from_millis(500)).await;
            edit_site(&cluster, "a", json!({"phase": "done"})).await;
        })
    };
    let (wrong, right) = (Planted::new(waits_for_an_edge), Planted::new(looks_at_the_level));
    found_by_seeds(&ends(wrong), &ends(right), "a-report is missing");
}

async fn copy_spec(hands: &Hands, key: &Key) -> Result<(), kube::Error> {
    let Some(site) = hands.sites.get(key) else { return Ok(()) };
    if site.annotations().get("observed").map(String::as_str) == Some(data(&site, "colour")) {
        return Ok(());
    }
    let patch = json!({"metadata": {"resourceVersion": site.resource_version(),
        "annotations": {"observed": data(&site, "colour")}}});
    hands.sites().patch(key.name(), &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn gives_up_on_conflict(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        match copy_spec(&hands, &key).await {
            Err(error) if error.is_conflict() => Ok(Action::done()),
            other => other.map(|()| Action::done()).map_err(Into::into),
        }
    }
    .boxed()
}

fn tries_again_on_conflict(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move { copy_spec(&hands, &key).await.map(|()| Action::done()).map_err(Into::into) }.boxed()
}

#[test]
fn a_conflict_that_is_not_tried_again_loses_the_last_word() {
    let paints = |planted| {
        of(planted).steps(|cluster| async move {
            create_site(&cluster, "a", json!({"colour": "red"})).await;
            edit_site(&cluster, "a", json!({"colour": "green"})).await;
            cluster.settle().await;
            edit_site(&cluster, "a", json!({"colour": "blue"})).await;
        })
    };
    let (wrong, right) = (Planted::new(gives_up_on_conflict), Planted::new(tries_again_on_conflict));
    found_by_seeds(&paints(wrong), &paints(right), "observed");
}

fn owned_child(site: &k8s_openapi::api::core::v1::ConfigMap) -> k8s_openapi::api::core::v1::Secret {
    let mut child = crate::child_of(&site.name_any(), "a-data");
    child.metadata.owner_references = Some(vec![owner::controller_reference(site)]);
    child
}

fn knows_sites_by_name(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else {
            hands.memory.lock().unwrap().remove(key.name());
            return Ok(Action::done());
        };
        if !hands.memory.lock().unwrap().contains_key(key.name()) {
            match hands.secrets().create(&PostParams::default(), &owned_child(&site)).await {
                Err(error) if !error.is_already_exists() => return Err(error.into()),
                _ => {}
            }
            hands.memory.lock().unwrap().insert(key.name().to_owned(), "installed".to_owned());
        }
        Ok(Action::done())
    }
    .boxed()
}

fn knows_sites_by_uid(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        match hands.secrets().get_opt("a-data").await? {
            Some(child) if owner::is_controlled_by(&child.metadata, site.uid().as_deref()) => {}
            Some(_) => return Err(Error::Invalid("the data of an earlier site of this name is still there".into())),
            None => drop(hands.secrets().create(&PostParams::default(), &owned_child(&site)).await?),
        }
        Ok(Action::done())
    }
    .boxed()
}

#[test]
fn wrong_ownership_a_name_that_is_used_again_is_taken_for_the_old_one() {
    let returns = |planted: Planted| {
        Scenario::of(planted.name)
            .on(bare().loops(&["garbage"]))
            .setup(move |cluster| async move { planted.start(&cluster) })
            .steps(|cluster| async move {
                create_site(&cluster, "a", json!({})).await;
                cluster.settle().await;
                delete_site(&cluster, "a").await;
                cluster.advance(std::time::Duration::from_secs(1)).await;
                create_site(&cluster, "a", json!({})).await;
            })
    };
    let (wrong, right) = (Planted::new(knows_sites_by_name), Planted::new(knows_sites_by_uid));
    found_by_seeds(&returns(wrong), &returns(right), "a-data is missing");
}
