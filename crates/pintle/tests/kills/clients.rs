//! Who writes and watches until the server is gone.

use super::ledger::{Complaints, Held, History, Ledger, Mirror};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use pintle_meta::Random;
use serde_json::json;
use std::collections::BTreeMap;
use std::pin::pin;

/// Names that a client has at a time, so that updates and deletions have something to meet.
const NAMES: u64 = 40;

/// Everything that all who take part in a run share.
#[derive(Clone)]
pub struct Run {
    pub history: History,
    pub complaints: Complaints,
}

/// One client's writes, one after the other, until one has no answer; how many were acknowledged.
pub async fn write(
    api: Api<ConfigMap>,
    client: usize,
    mut ledger: Ledger,
    random: Random,
    run: Run,
) -> (Ledger, usize) {
    // Revisions from here on were given out after the restart.
    let floor = run.history.newest();
    let mut acknowledged = 0;
    loop {
        let name = format!("client-{client}-{}", random.below(NAMES));
        let held = ledger.held.get(&name).cloned().flatten();
        // Nothing stands for a deletion.
        let content = (held.is_none() || random.below(10) > 0)
            .then(|| format!("{name} {:016x} {}", random.next(), "x".repeat(512)));
        let answer = match (&content, &held) {
            (None, _) => api.delete(&name, &DeleteParams::default()).await.map(|_| None),
            (Some(content), None) => api.create(&PostParams::default(), &object(&name, content, None)).await.map(Some),
            (Some(content), Some(held)) => {
                let object = object(&name, content, Some(held.revision));
                api.replace(&name, &PostParams::default(), &object).await.map(Some)
            }
        };
        match answer {
            Ok(written) => {
                let held = written.as_ref().zip(content).map(|(written, content)| {
                    let revision = revision(written);
                    run.history.acknowledged(revision, format!("{name} = {content}"), floor, &run.complaints);
                    Held { revision, content }
                });
                ledger.held.insert(name, held);
            }
            Err(kube::Error::Api(status)) => {
                run.complaints.refused(format!("{name}: {} {}", status.code, status.message));
                return (ledger, acknowledged);
            }
            Err(_) => {
                ledger.unknown = Some((name, content));
                return (ledger, acknowledged);
            }
        }
        acknowledged += 1;
    }
}

/// Watches on from where the mirror stands until the server is gone.
pub async fn watch(api: Api<ConfigMap>, mut mirror: Mirror, run: Run) -> Mirror {
    let resumes = mirror.until > 0;
    let mut told = false;
    loop {
        if mirror.until == 0 {
            match api.list(&ListParams::default()).await {
                Ok(list) => mirror.replace(number(list.metadata.resource_version)),
                Err(_) => return mirror,
            }
        }
        let gone = match api.watch(&WatchParams::default(), &mirror.until.to_string()).await {
            Err(kube::Error::Api(status)) if status.code == 410 => true,
            Err(_) => return mirror,
            Ok(stream) => {
                let mut stream = pin!(stream);
                loop {
                    let event = match stream.next().await {
                        Some(Ok(event)) => event,
                        _ => return mirror,
                    };
                    if let WatchEvent::Error(status) = &event {
                        break status.code == 410;
                    }
                    if resumes && !told {
                        (told, mirror.resumed) = (true, mirror.resumed + 1);
                    }
                    take(&mut mirror, event, &run);
                }
            }
        };
        if !gone {
            return mirror;
        }
        mirror.check(&run.history, &run.complaints);
        (told, mirror.until, mirror.gone) = (true, 0, mirror.gone + 1);
    }
}

fn take(mirror: &mut Mirror, event: WatchEvent<ConfigMap>, run: &Run) {
    let (object, deleted) = match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
        WatchEvent::Deleted(object) => (object, true),
        WatchEvent::Bookmark(bookmark) => {
            mirror.until = mirror.until.max(number(Some(bookmark.metadata.resource_version)));
            return;
        }
        WatchEvent::Error(_) => return,
    };
    let (revision, name) = (revision(&object), object.name_any());
    let content = (!deleted).then(|| content(&object));
    let write = content.as_ref().map_or(format!("{name} deleted"), |content| format!("{name} = {content}"));
    run.history.saw(revision, write, &run.complaints);
    mirror.event(revision, name, content, &run.complaints);
}

/// Everything there is, by name, and the revision it stands for.
pub async fn list(api: &Api<ConfigMap>, run: &Run) -> Result<(BTreeMap<String, Held>, u64), kube::Error> {
    let list = api.list(&ListParams::default()).await?;
    let mut found = BTreeMap::new();
    for object in &list.items {
        let (name, held) = (object.name_any(), Held { revision: revision(object), content: content(object) });
        run.history.saw(held.revision, format!("{name} = {}", held.content), &run.complaints);
        found.insert(name, held);
    }
    Ok((found, number(list.metadata.resource_version)))
}

pub fn object(name: &str, content: &str, revision: Option<u64>) -> ConfigMap {
    let version = revision.map(|revision| revision.to_string());
    let object = json!({"metadata": {"name": name, "resourceVersion": version}, "data": {"content": content}});
    serde_json::from_value(object).expect("a ConfigMap")
}

fn content(object: &ConfigMap) -> String {
    object.data.as_ref().and_then(|data| data.get("content")).cloned().unwrap_or_default()
}

fn revision(object: &ConfigMap) -> u64 {
    number(object.resource_version())
}

fn number(version: Option<String>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}
