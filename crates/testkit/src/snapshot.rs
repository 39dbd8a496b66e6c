//! The state of a cluster as a value that two runs can be compared by.
//!
//! What differs between two runs that went equally well is taken out: versions, times, uids, generated names, addresses,
//! the ids of containers, who manages which field. References stay references: a uid becomes the name of the object it belongs to, so that a
//! dependent of the wrong owner still shows. Events and Leases are not in it.

use crate::Cluster;
use crate::activity::{RESTLESS, differ};
use pintle_store::{Range, Store};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Every object by its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    pub objects: BTreeMap<String, Value>,
    /// Objects that name an owner which is not there.
    pub leaks: Vec<String>,
}

/// Differences that a message shows.
const SHOWN: usize = 12;

impl Snapshot {
    /// The end of every difference between this state and another, in words; empty if there is none.
    pub fn differences(&self, other: &Snapshot) -> Vec<String> {
        let mut found = Vec::new();
        let keys: BTreeSet<&String> = self.objects.keys().chain(other.objects.keys()).collect();
        for key in keys {
            match (self.objects.get(key), other.objects.get(key)) {
                (Some(_), None) => found.push(format!("{key} is missing")),
                (None, Some(_)) => found.push(format!("{key} is too many")),
                (Some(wanted), Some(got)) => differ("", wanted, got, &mut |path, wanted, got| {
                    let path = path.trim_start_matches('.').replace('\u{1}', ".");
                    found.push(format!("{key}: {path} is {got} and should be {wanted}"));
                }),
                (None, None) => {}
            }
        }
        found.extend(other.leaks.iter().filter(|leak| !self.leaks.contains(leak)).cloned());
        if found.len() > SHOWN {
            let more = found.len() - SHOWN;
            found.truncate(SHOWN);
            found.push(format!("and {more} more"));
        }
        found
    }
}

impl Cluster {
    /// What is stored now, in a form that two runs can be compared by.
    ///
    /// # Panics
    ///
    /// When the store cannot be read.
    pub async fn snapshot(&self) -> Snapshot {
        let page = self.store.range(Range::prefix("/registry/")).await.unwrap_or_else(|error| panic!("{error}"));
        let kept = page.entries.iter().filter(|entry| !RESTLESS.iter().any(|prefix| entry.key.starts_with(prefix)));
        let objects = kept.map(|entry| {
            // What is no object (a claim of an address) counts as present or not.
            (entry.key.to_string(), serde_json::from_slice(&entry.value).unwrap_or_default())
        });
        normal(objects.collect())
    }

    /// One number for every revision, key and byte written since the start: the same for two runs that are the same.
    pub fn trace_hash(&self) -> u64 {
        self.activity.hash()
    }
}

fn normal(mut objects: BTreeMap<String, Value>) -> Snapshot {
    let uids: BTreeSet<String> = objects.values().map(|object| text(object, "/metadata/uid").to_owned()).collect();
    let mut leaks = Vec::new();
    for (key, object) in &objects {
        for owner in object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten() {
            if !uids.contains(text(owner, "/uid")) {
                let (kind, name) = (text(owner, "/kind"), text(owner, "/name"));
                leaks.push(format!("{key} has an owner that is not there: {kind} {name}"));
            }
        }
    }
    let mut words = Words::default();
    objects.values_mut().for_each(plain);
    for (name, stem, number) in generated(&objects) {
        words.learn(&name, &format!("{stem}({number})"));
    }
    // A volume that was made for a claim is named by that claim's UID.
    for object in objects.values() {
        let (name, uid) = (text(object, "/metadata/name"), text(object, "/spec/claimRef/uid"));
        if !uid.is_empty() && name.strip_prefix("pvc-") == Some(uid) {
            words.learn(name, &format!("pvc-({})", text(object, "/spec/claimRef/name")));
        }
    }
    // So are objects of many operators: by the first part of their owner's.
    for object in objects.values() {
        let name = text(object, "/metadata/name");
        for owner in object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten() {
            let part = text(owner, "/uid").split('-').next().unwrap_or_default();
            if let Some(stem) = name.strip_suffix(part).filter(|stem| !part.is_empty() && stem.ends_with('-')) {
                words.learn(name, &format!("{stem}({})", text(owner, "/name")));
            }
        }
    }
    for (key, object) in &objects {
        let shown = words.say(key);
        for pointer in ["/status/podIP", "/spec/clusterIP"] {
            let address = text(object, pointer);
            if !address.is_empty() && address != "None" {
                words.learn_exact(address, &format!("address of {shown}"));
            }
        }
    }
    // An IPAddress is named by its address: only now is it known whose that is.
    for (key, object) in &objects {
        words.learn_exact(text(object, "/metadata/uid"), &format!("uid of {}", words.say(key)));
    }
    let said = objects.into_iter().map(|(key, mut object)| {
        words.rewrite(&mut object);
        sort(&mut object);
        (words.say(&key), object)
    });
    let leaks = leaks.iter().map(|leak| words.say(leak)).collect();
    Snapshot { objects: said.collect(), leaks }
}

/// Objects with a generated name: the name, what it was made of, and a number that depends on what the object is like.
fn generated(objects: &BTreeMap<String, Value>) -> Vec<(String, String, usize)> {
    // By folder and stem: what each object is like, and its name.
    let mut alike: BTreeMap<(&str, &str), Vec<(String, &str)>> = BTreeMap::new();
    for (key, object) in objects {
        let (stem, name) = (text(object, "/metadata/generateName"), text(object, "/metadata/name"));
        if !stem.is_empty() && name.starts_with(stem) {
            let folder = key.strip_suffix(name).unwrap_or(key);
            let shape = object.to_string().replace(name, "").replace(text(object, "/metadata/uid"), "");
            alike.entry((folder, stem)).or_default().push((shape, name));
        }
    }
    let mut found = Vec::new();
    for ((_, stem), mut group) in alike {
        group.sort();
        for (index, (_, name)) in group.into_iter().enumerate() {
            found.push((name.to_owned(), stem.to_owned(), index + 1));
        }
    }
    found
}

/// Takes out what differs from run to run by its nature.
fn plain(value: &mut Value) {
    let generation = value.pointer("/metadata/generation").cloned();
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("resourceVersion");
        metadata.remove("generation");
        // Who set a field last, and who only agreed with it, depends on the way.
        metadata.remove("managedFields");
    }
    plain_within(value, generation.as_ref());
}

fn plain_within(value: &mut Value, generation: Option<&Value>) {
    match value {
        Value::Object(map) => plain_map(map, generation),
        Value::Array(items) => items.iter_mut().for_each(|item| plain_within(item, generation)),
        Value::String(text) if is_time(text) => "time".clone_into(text),
        Value::String(text) if text.starts_with("simulated://") => "container".clone_into(text),
        // Its end is drawn by chance, like a generated name.
        Value::String(text) if text.starts_with("kube-api-access-") => "kube-api-access".clone_into(text),
        _ => {}
    }
}

fn plain_map(map: &mut Map<String, Value>, generation: Option<&Value>) {
    for (key, value) in map.iter_mut() {
        if key == "observedGeneration" {
            // How many changes there were depends on the way; whether the last one was seen does not.
            *value = if Some(&*value) == generation { "current".into() } else { "behind".into() };
        } else {
            plain_within(value, generation);
        }
    }
}

/// `2026-11-16T04:00:00Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    (20..=35).contains(&bytes.len())
        && bytes.ends_with(b"Z")
        && bytes[4] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[..4].iter().all(u8::is_ascii_digit)
}

/// The order of a list of objects (endpoints, conditions, managers) depends on the way.
fn sort(value: &mut Value) {
    match value {
        Value::Array(items) => {
            items.iter_mut().for_each(sort);
            if items.iter().all(Value::is_object) {
                items.sort_by_cached_key(Value::to_string);
            }
        }
        Value::Object(map) => map.values_mut().for_each(sort),
        _ => {}
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// What is called otherwise in every run, and what to call it here.
#[derive(Default)]
struct Words {
    within: Vec<(String, String)>,
    exact: BTreeMap<String, String>,
}

impl Words {
    fn learn(&mut self, word: &str, shown: &str) {
        self.within.push((word.to_owned(), shown.to_owned()));
    }

    fn learn_exact(&mut self, word: &str, shown: &str) {
        if !word.is_empty() {
            self.exact.insert(word.to_owned(), shown.to_owned());
        }
    }

    fn say(&self, text: &str) -> String {
        if let Some(shown) = self.exact.get(text) {
            return shown.clone();
        }
        let mut said = text.to_owned();
        for (word, shown) in &self.within {
            if said.contains(word.as_str()) {
                said = said.replace(word.as_str(), shown);
            }
        }
        // The last part of a key: an address that is claimed.
        match said.rsplit_once('/') {
            Some((folder, last)) if self.exact.contains_key(last) => format!("{folder}/{}", self.exact[last]),
            _ => said,
        }
    }

    fn rewrite(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.say(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite(item)),
            Value::Object(map) => map.values_mut().for_each(|value| self.rewrite(value)),
            _ => {}
        }
    }
}
