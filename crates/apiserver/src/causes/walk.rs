//! From an object back to the beginning: its writes, the writes that caused them, and so on. Pure.
//!
//! Worked example, with revisions on the left:
//!
//! ```text
//! 5  kubectl created Deployment web                                             depth 2
//! 6  deployment-controller created ReplicaSet web-1 because Deployment web@5    depth 1
//! 7  replicaset-controller created Pod web-1-x because ReplicaSet web-1@6       depth 0
//! 9  scheduler changed Pod web-1-x because Pod web-1-x@7                        depth 0
//! ```
//!
//! Asked for the Pod, the walk starts with 7 and 9, finds 6 through the cause of 7, and 5 through the cause of 6.

use super::header::Because;
use super::record::{Effect, Record};
use std::collections::BTreeMap;
use std::sync::Arc;

const DEEPEST: u32 = 32;
const MOST_STEPS: usize = 256;

/// Which object is asked for. What is empty does not matter.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub group: Option<String>,
    pub kind: String,
    pub resource: String,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// The identifier of a trace.
    pub trace: String,
}

impl Wanted {
    pub fn matches(&self, record: &Record) -> bool {
        let fields = record.fields();
        let same = |wanted: &str, is: &str| wanted.is_empty() || wanted == is;
        self.group.as_deref().is_none_or(|group| group == fields.group)
            && (self.kind.is_empty() || self.kind.eq_ignore_ascii_case(fields.kind))
            && same(&self.resource, fields.resource)
            && same(&self.namespace, fields.namespace)
            && same(&self.name, fields.name)
            && same(&self.uid, fields.uid)
            && (self.trace.is_empty() || fields.trace.get(3..35) == Some(&self.trace))
    }
}

/// A write on the way.
#[derive(Clone, Debug)]
pub struct Step {
    pub record: Arc<Record>,
    /// How many causes lie between it and the object that was asked for.
    pub depth: u32,
    /// How many more writes of the same status by the same loop followed.
    pub folded: u32,
}

/// The way, from the beginning to the end.
#[derive(Clone, Debug, Default)]
pub struct Chain {
    pub steps: Vec<Step>,
    /// There was more than is worth showing.
    pub cut: bool,
}

/// Walks back from an object through records in the order of their revisions.
pub fn walk(records: &[Arc<Record>], wanted: &Wanted) -> Chain {
    let Some(last) = records.iter().rev().find(|record| wanted.matches(record)) else { return Chain::default() };
    // A name may have been given to several objects, one after another: the newest is meant.
    let map = Map::of(records);
    let own = map.writes_of(identity(last));
    let mut walker = Walker { records, map: &map, found: BTreeMap::new(), waiting: Vec::new(), cut: false };
    for (index, folded) in fold(records, own) {
        walker.visit(index, 0, folded);
    }
    // In the order of depth: a write reached in two ways keeps the shorter.
    let mut next = 0;
    while let Some((index, depth)) = walker.waiting.get(next).copied() {
        next += 1;
        walker.follow(index, depth);
    }
    let steps = walker.found.into_iter();
    let steps = steps.map(|(index, (depth, folded))| Step { record: records[index].clone(), depth, folded }).collect();
    Chain { steps, cut: walker.cut }
}

/// By uid, which is one object's alone; by names where a cause brings no uid.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Identity<'a> {
    Uid(&'a str),
    Names { group: &'a str, kind: &'a str, namespace: &'a str, name: &'a str },
}

fn identity(record: &Record) -> Identity<'_> {
    let fields = record.fields();
    if fields.uid.is_empty() { names(record) } else { Identity::Uid(fields.uid) }
}

fn names(record: &Record) -> Identity<'_> {
    let fields = record.fields();
    Identity::Names { group: fields.group, kind: fields.kind, namespace: fields.namespace, name: fields.name }
}

/// Where the writes of each object are.
struct Map<'a>(BTreeMap<Identity<'a>, Vec<usize>>);

impl<'a> Map<'a> {
    fn of(records: &'a [Arc<Record>]) -> Self {
        let mut map: BTreeMap<Identity<'a>, Vec<usize>> = BTreeMap::new();
        for (index, record) in records.iter().enumerate() {
            map.entry(names(record)).or_default().push(index);
            if let uid @ Identity::Uid(_) = identity(record) {
                map.entry(uid).or_default().push(index);
            }
        }
        Map(map)
    }

    fn writes_of<'b>(&'b self, identity: Identity<'b>) -> &'b [usize] {
        self.0.get(&identity).map(Vec::as_slice).unwrap_or_default()
    }
}

struct Walker<'a> {
    records: &'a [Arc<Record>],
    map: &'a Map<'a>,
    /// By index, which is the order of revisions: depth and how many writes were folded. Also what cuts cycles.
    found: BTreeMap<usize, (u32, u32)>,
    waiting: Vec<(usize, u32)>,
    cut: bool,
}

impl Walker<'_> {
    fn visit(&mut self, index: usize, depth: u32, folded: u32) {
        if self.found.contains_key(&index) {
            return;
        }
        if self.found.len() >= MOST_STEPS || depth > DEEPEST {
            self.cut = true;
            return;
        }
        self.found.insert(index, (depth, folded));
        self.waiting.push((index, depth));
    }

    fn follow(&mut self, index: usize, depth: u32) {
        let record = self.records[index].clone();
        let Some(cause) = record.cause() else { return };
        for because in &cause.because {
            let writes = self.writes(because);
            // The write that the loop saw; where events were merged, the newest before what it saw.
            let seen = because.revision.parse().unwrap_or(record.revision.saturating_sub(1)).min(record.revision);
            let seen = writes.iter().rev().copied().find(|i| self.records[*i].revision <= seen && *i < index);
            // And where that object came from.
            let made = writes.iter().copied().find(|i| self.records[*i].effect == Effect::Created && *i < index);
            for cause in seen.into_iter().chain(made) {
                self.visit(cause, depth + 1, 0);
            }
        }
    }

    fn writes(&self, because: &Because<'_>) -> Vec<usize> {
        let Because { group, kind, namespace, name, uid, .. } = because;
        let by_uid = if uid.is_empty() { &[] } else { self.map.writes_of(Identity::Uid(uid)) };
        if by_uid.is_empty() && uid.is_empty() && !name.is_empty() {
            return self.map.writes_of(Identity::Names { group, kind, namespace, name }).to_vec();
        }
        by_uid.to_vec()
    }
}

/// The writes of one object; of a row of status writes by the same loop the first, and how many followed.
fn fold(records: &[Arc<Record>], writes: &[usize]) -> Vec<(usize, u32)> {
    let mut folded: Vec<(usize, u32)> = Vec::new();
    for index in writes {
        let repeats = folded.last().is_some_and(|(last, _)| {
            let (a, b) = (&records[*last], &records[*index]);
            is_status(a) && is_status(b) && a.fields().agent == b.fields().agent && a.fields().user == b.fields().user
        });
        match folded.last_mut() {
            Some((_, more)) if repeats => *more += 1,
            _ => folded.push((*index, 0)),
        }
    }
    folded
}

fn is_status(record: &Record) -> bool {
    record.effect == Effect::Updated && record.fields().subresource == "status"
}
