//! What was written, as the store saw it: how a cluster is known to be at rest, what keeps it from resting, and the hash
//! by which two runs are known to be the same.

use pintle_store::{Entry, Event, EventKind, Store};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// Written again and again by a healthy cluster.
pub(crate) const RESTLESS: [&str; 2] = ["/registry/leases/", "/registry/events/"];

/// Where nodes are kept, which write the time of their last heartbeat every few minutes.
const NODES: &str = "/registry/minions/";

/// Versions of a key that are kept to see what alternates.
const RECENT: usize = 4;

/// A key that is written so often while time stands still keeps it from ever moving on.
const FRENZY: u64 = 500;

/// Cheap to clone; clones are the same record.
#[derive(Clone, Default)]
pub(crate) struct Activity(Arc<Shared>);

#[derive(Default)]
struct Shared {
    record: Mutex<Record>,
    frenzy: Notify,
}

#[derive(Default)]
struct Record {
    count: u64,
    events: u64,
    hash: DefaultHasher,
    /// Since someone began to watch for rest.
    by_key: BTreeMap<Arc<str>, Hot>,
}

#[derive(Clone, Default)]
struct Hot {
    count: u64,
    /// The moment of the last write, and how many there were in it.
    moment: Option<(Instant, u64)>,
    recent: VecDeque<Option<Arc<Entry>>>,
}

/// A key that changes again and again.
pub(crate) struct Hottest {
    pub(crate) key: String,
    pub(crate) count: u64,
    /// Path, and the values it had, oldest first.
    pub(crate) flips: Vec<(String, Vec<String>)>,
}

impl Activity {
    /// Records everything that is written to the store from now on. Call it inside a runtime.
    pub(crate) fn of(store: &dyn Store) -> Self {
        let activity = Activity::default();
        if let Ok(mut watch) = store.watch("/registry/", store.revision()) {
            let shared = Arc::downgrade(&activity.0);
            tokio::spawn(async move {
                while let Ok(events) = watch.next().await {
                    let Some(activity) = shared.upgrade().map(Activity) else { return };
                    let (now, mut record) = (Instant::now(), activity.record());
                    // All of them are taken, whatever the first one says.
                    if events.iter().filter(|event| record.take(event, now)).count() > 0 {
                        activity.0.frenzy.notify_one();
                    }
                }
            });
        }
        activity
    }

    /// All writes until now, Leases and Events left out: those never end.
    pub(crate) fn count(&self) -> u64 {
        self.record().count
    }

    /// All writes of Events until now.
    pub(crate) fn events(&self) -> u64 {
        self.record().events
    }

    /// One number for every revision, key and byte that was written.
    pub(crate) fn hash(&self) -> u64 {
        self.record().hash.finish()
    }

    /// Forgets which keys were busy.
    pub(crate) fn cool(&self) {
        self.record().by_key.clear();
    }

    pub(crate) fn hottest(&self) -> Option<Hottest> {
        let (key, hot) = {
            let record = self.record();
            let (key, hot) = record.by_key.iter().max_by_key(|(_, hot)| hot.count)?;
            (key.to_string(), hot.clone())
        };
        let versions: Vec<Value> = hot.recent.iter().map(|entry| entry.as_ref().map_or(Value::Null, read)).collect();
        let mut flips = BTreeMap::new();
        for pair in versions.windows(2) {
            differ("", &pair[0], &pair[1], &mut |path, _, _| {
                flips.entry(path.to_owned()).or_insert_with(|| values_at(&versions, path));
            });
        }
        Some(Hottest { key, count: hot.count, flips: flips.into_iter().collect() })
    }

    /// Returns when someone writes so often that time stands still.
    pub(crate) async fn frenzy(&self) {
        self.0.frenzy.notified().await;
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.0.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    /// Whether this key is in a frenzy.
    fn take(&mut self, event: &Event, now: Instant) -> bool {
        let key: &str = &event.entry.key;
        self.hash.write_u64(event.revision);
        self.hash.write(key.as_bytes());
        self.hash.write(&event.entry.value);
        if key.starts_with(RESTLESS[1]) {
            self.events += 1;
        }
        if RESTLESS.iter().any(|prefix| key.starts_with(prefix)) || is_heartbeat(event) {
            return false;
        }
        self.count += 1;
        let hot = self.by_key.entry(event.entry.key.clone()).or_default();
        hot.count += 1;
        if hot.recent.is_empty() {
            hot.recent.push_back(event.previous.clone());
        }
        hot.recent.push_back((event.kind == EventKind::Put).then(|| event.entry.clone()));
        if hot.recent.len() > RECENT {
            hot.recent.pop_front();
        }
        let earlier = hot.moment.filter(|(moment, _)| *moment == now).map_or(0, |(_, count)| count);
        hot.moment = Some((now, earlier + 1));
        earlier + 1 == FRENZY
    }
}

/// Whether a node said only that it is still there.
fn is_heartbeat(event: &Event) -> bool {
    let Some(previous) = &event.previous else { return false };
    if event.kind != EventKind::Put || !event.entry.key.starts_with(NODES) {
        return false;
    }
    let mut only_times = true;
    differ("", &read(previous), &read(&event.entry), &mut |path, _, _| {
        only_times &= path.ends_with(".lastHeartbeatTime");
    });
    only_times
}

/// The object without what changes with every write by itself.
fn read(entry: &Arc<Entry>) -> Value {
    let mut object: Value = serde_json::from_slice(&entry.value).unwrap_or_default();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
    }
    object
}

fn values_at(versions: &[Value], path: &str) -> Vec<String> {
    let escaped = |part: &str| part.replace('\u{1}', ".").replace('~', "~0").replace('/', "~1");
    let pointer: String = path.split('.').skip(1).map(|part| format!("/{}", escaped(part))).collect();
    versions.iter().map(|version| version.pointer(&pointer).map_or("nothing".to_owned(), Value::to_string)).collect()
}

/// Calls `tell` with every path at which two values differ. A dot within a name is told as the character 1.
pub(crate) fn differ(path: &str, old: &Value, new: &Value, tell: &mut impl FnMut(&str, &Value, &Value)) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let (old, new) = (a.get(key).unwrap_or(&Value::Null), b.get(key).unwrap_or(&Value::Null));
                if old != new {
                    differ(&format!("{path}.{}", key.replace('.', "\u{1}")), old, new, tell);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (old, new)) in a.iter().zip(b).enumerate() {
                differ(&format!("{path}.{index}"), old, new, tell);
            }
        }
        _ if old == new => {}
        _ => tell(path, old, new),
    }
}
