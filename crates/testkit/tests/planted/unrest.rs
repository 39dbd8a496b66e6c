//! Bugs that show in a cluster that never rests: `settle` finds them and says who, what and which field.

use crate::{Hands, Planted, bare, create_site};
use futures::FutureExt;
use futures::future::BoxFuture;
use kube::ResourceExt;
use pintle_runtime::{Action, Error, Key};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

type Reconciled = BoxFuture<'static, Result<Action, Error>>;

fn counts_its_own_visits(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        let visits: u64 = site.annotations().get("visits").and_then(|visits| visits.parse().ok()).unwrap_or(0);
        hands.annotate(&site, "visits", &(visits + 1).to_string()).await?;
        Ok(Action::done())
    }
    .boxed()
}

fn writes_what_it_has_seen(hands: Arc<Hands>, key: Key) -> Reconciled {
    async move {
        let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
        hands.annotate(&site, "visited", "true").await?;
        Ok(Action::done())
    }
    .boxed()
}

/// What `settle` says about these controllers.
async fn settled(controllers: &[Planted]) -> Result<(), String> {
    let cluster = bare().start().await;
    controllers.iter().for_each(|planted| planted.start(&cluster));
    create_site(&cluster, "a", json!({})).await;
    cluster.try_settle().await
}

#[tokio::test(start_paused = true)]
async fn a_status_written_on_every_visit_never_rests() {
    let report = settled(&[Planted::new(counts_its_own_visits)]).await.unwrap_err();
    for word in [
        "/registry/configmaps/default/a",
        "written by planted (PATCH) for its key default/a",
        "metadata.annotations.visits goes",
    ] {
        assert!(report.contains(word), "{report}");
    }
    assert_eq!(settled(&[Planted::new(writes_what_it_has_seen)]).await, Ok(()));
}

fn paints(colour: &'static str) -> impl Fn(Arc<Hands>, Key) -> Reconciled {
    move |hands, key| {
        async move {
            let Some(site) = hands.sites.get(&key) else { return Ok(Action::done()) };
            // Not at once, or the two would not even let time pass.
            tokio::time::sleep(Duration::from_millis(300)).await;
            hands.annotate(&site, "example.com/colour", colour).await?;
            Ok(Action::done())
        }
        .boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_fight_over_a_field_are_named_with_it() {
    let red = Planted::new(|hands, key| paints("red")(hands, key)).named("painter-red");
    let blue = Planted::new(|hands, key| paints("blue")(hands, key)).named("painter-blue");
    let report = settled(&[red, blue]).await.unwrap_err();
    for word in ["written by painter-red", "written by painter-blue", "metadata.annotations.example.com/colour goes"] {
        assert!(report.contains(word), "{report}");
    }
    assert!(report.contains(r#""red" → "blue""#), "{report}");
    assert_eq!(settled(&[red]).await, Ok(()), "one painter alone comes to rest");
}
