//! A transaction of ours as one of etcd's, and etcd's answer as one of ours.

use std::collections::HashMap;
use std::sync::Arc;

use prost::Message;

use super::channel::{DEADLINE, Repeat, TXN};
use super::error::Failure;
use super::keys::Keys;
use super::leases::{self, Leases};
use super::messages::{
    Compare, CompareResult, CompareTarget, DeleteRequest, KeyValue, PutRequest, RangeRequest, RequestOp, ResponseOp,
    TxnRequest, TxnResponse, compare, request_op, response_op, revision,
};
use super::replica::Replica;
use super::value::{decode, encode};
use crate::stage::check_sizes;
use crate::txn::{OPERATIONS, REQUEST};
use crate::{CommitError, Committed, Entry, Expect, Op, Revision, Txn};

/// What etcd takes unless it was told otherwise, for the words of a refusal.
const MOST_OPERATIONS: usize = 128;
const LARGEST_REQUEST: usize = 3 << 19;

/// etcd's messages, which distinguish its refusals.
const TOO_MANY_OPERATIONS: &str = "too many operations in txn request";
const TOO_LARGE: [&str; 2] = ["request is too large", "message larger than max"];
const NO_SPACE: &str = "database space exceeded";
const LEASE_NOT_FOUND: &str = "requested lease not found";

pub(super) async fn commit(replica: &Replica, leases: &Leases, txn: Txn) -> Result<Committed, CommitError> {
    replica.state.check_running()?;
    check_sizes(&txn)?;
    let plan = Plan::new(&txn);
    let answer = send(replica, leases, &txn, &plan).await?;
    let now = revision(answer.header.as_ref());
    if !answer.succeeded {
        return Err(conflict(replica, &txn, answer.responses));
    }
    // So that what the caller reads and watches next is not before its own write. It is not held up
    // for long: the write is done, whether it is seen here or not.
    if replica.is_connected() {
        replica.catch_up(now, DEADLINE).await;
    }
    let previous: Vec<Option<KeyValue>> = answer.responses.into_iter().map(previous).collect();
    let before = |op: usize| previous.get(plan.sent_as[op])?.as_ref();
    let entries = txn.ops.into_iter().enumerate().map(|(op, change)| entry(replica, change, before(op), now));
    Ok(Committed { revision: now, entries: entries.collect() })
}

/// Which ops are sent: etcd takes one change of a key in a transaction, so the last one stands for all
/// of that key.
struct Plan {
    /// Indexes into the transaction's ops.
    sent: Vec<usize>,
    /// For each op of the transaction, the place in `sent` of the one that stands for it.
    sent_as: Vec<usize>,
}

impl Plan {
    fn new(txn: &Txn) -> Self {
        let key = |op: &Op| match op {
            Op::Put { key, .. } | Op::Delete { key } => Arc::clone(key),
        };
        let mut places: HashMap<Arc<str>, usize> = HashMap::new();
        let mut sent: Vec<usize> = Vec::new();
        let mut sent_as = Vec::with_capacity(txn.ops.len());
        for (index, op) in txn.ops.iter().enumerate() {
            let place = *places.entry(key(op)).or_insert(sent.len());
            match sent.get_mut(place) {
                Some(last) => *last = index,
                None => sent.push(index),
            }
            sent_as.push(place);
        }
        Self { sent, sent_as }
    }
}

async fn send(replica: &Replica, leases: &Leases, txn: &Txn, plan: &Plan) -> Result<TxnResponse, CommitError> {
    let mut request = checks(&replica.keys, txn);
    let mut again = true;
    loop {
        let changes = changes(replica, leases, txn, plan).await;
        request.success = changes.map_err(|failure| CommitError::Unavailable { reason: failure.reason() })?;
        let failure = match replica.cluster.call(TXN, &request, Repeat::Unsent).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        // It was refused whole, so with a new lease it is still the first time.
        if !(failure.says(LEASE_NOT_FOUND) && again) {
            return Err(refusal(&failure, txn, &request));
        }
        leases.forget().await;
        again = false;
    }
}

fn checks(keys: &Keys, txn: &Txn) -> TxnRequest {
    let compare = txn.checks.iter().map(|(key, expect)| {
        let (result, target, against) = match expect {
            Expect::Absent => (CompareResult::Equal, CompareTarget::Create, compare::Against::CreateRevision(0)),
            Expect::Present => (CompareResult::Greater, CompareTarget::Create, compare::Against::CreateRevision(0)),
            Expect::Revision(revision) => {
                // An absent key has revision 0 in etcd and none here, so 0 is to equal nothing.
                let revision = i64::try_from(*revision).ok().filter(|revision| *revision > 0).unwrap_or(-1);
                (CompareResult::Equal, CompareTarget::Mod, compare::Against::ModRevision(revision))
            }
        };
        Compare { result: result as i32, target: target as i32, key: keys.in_etcd(key), against: Some(against) }
    });
    let failure = txn.checks.iter().map(|(key, _)| {
        let range = RangeRequest { key: keys.in_etcd(key), ..RangeRequest::default() };
        RequestOp { kind: Some(request_op::Kind::Range(range)) }
    });
    TxnRequest { compare: compare.collect(), success: Vec::new(), failure: failure.collect() }
}

async fn changes(replica: &Replica, leases: &Leases, txn: &Txn, plan: &Plan) -> Result<Vec<RequestOp>, Failure> {
    let mut changes = Vec::with_capacity(plan.sent.len());
    for op in plan.sent.iter().map(|index| &txn.ops[*index]) {
        let kind = match op {
            Op::Put { key, value, expires_at } => {
                let lease = match expires_at {
                    Some(at) => leases.until(&replica.cluster, *at).await?,
                    None => leases::NONE,
                };
                let (key, value) = (replica.keys.in_etcd(key), encode(value, *expires_at));
                request_op::Kind::Put(PutRequest { key, value, lease, prev_kv: true })
            }
            Op::Delete { key } => {
                request_op::Kind::Delete(DeleteRequest { key: replica.keys.in_etcd(key), prev_kv: true })
            }
        };
        changes.push(RequestOp { kind: Some(kind) });
    }
    Ok(changes)
}

/// What a key was before etcd changed it.
fn previous(response: ResponseOp) -> Option<KeyValue> {
    match response.kind? {
        response_op::Kind::Put(put) => put.prev_kv,
        response_op::Kind::Delete(delete) => delete.prev_kvs.into_iter().next(),
        response_op::Kind::Range(range) => range.kvs.into_iter().next(),
    }
}

/// What one op has made, as if it were the only one of its key.
fn entry(replica: &Replica, op: Op, previous: Option<&KeyValue>, revision: Revision) -> Option<Arc<Entry>> {
    let before = |key: &Arc<str>| previous.map(|stored| decode(Arc::clone(key), stored));
    match op {
        Op::Put { key, value, expires_at } => {
            // The replica's, if it has it: what readers derive from it is then shared.
            let here = replica.state.get(&key).filter(|entry| entry.mod_revision == revision);
            let made = || Arc::new(Entry::next(before(&key).as_ref(), Arc::clone(&key), value, expires_at, revision));
            Some(here.unwrap_or_else(made))
        }
        Op::Delete { key } => before(&key).map(|entry| Arc::new(entry.deleted(revision))),
    }
}

/// The first check that does not hold, by what etcd found under the keys.
fn conflict(replica: &Replica, txn: &Txn, found: Vec<ResponseOp>) -> CommitError {
    let mut failed = txn.checks.iter().zip(found.into_iter().map(previous)).filter(|((_, expect), stored)| {
        let at = stored.as_ref().map(|stored| stored.mod_revision.unsigned_abs());
        match expect {
            Expect::Absent => at.is_some(),
            Expect::Present => at.is_none(),
            Expect::Revision(revision) => at != Some(*revision),
        }
    });
    match failed.next() {
        Some(((key, _), stored)) => {
            let current = stored.map(|stored| {
                let here = replica.state.get(key);
                let same = here.filter(|entry| entry.mod_revision == stored.mod_revision.unsigned_abs());
                same.unwrap_or_else(|| Arc::new(decode(Arc::clone(key), &stored)))
            });
            CommitError::Conflict { key: Arc::clone(key), current }
        }
        None => CommitError::Unavailable { reason: "etcd refused the transaction and did not say why".to_owned() },
    }
}

fn refusal(failure: &Failure, txn: &Txn, request: &TxnRequest) -> CommitError {
    let too_large = |what, size: usize, limit: usize| {
        let key = txn.ops.first().map_or_else(
            || Arc::from(""),
            |op| match op {
                Op::Put { key, .. } | Op::Delete { key } => Arc::clone(key),
            },
        );
        // An etcd with smaller bounds does not say what they are.
        CommitError::TooLarge { key, what, size, limit: limit.min(size.saturating_sub(1)) }
    };
    if failure.says(TOO_MANY_OPERATIONS) {
        return too_large(OPERATIONS, request.success.len().max(request.compare.len()), MOST_OPERATIONS);
    }
    if TOO_LARGE.iter().any(|words| failure.says(words)) {
        return too_large(REQUEST, request.encoded_len(), LARGEST_REQUEST);
    }
    if failure.says(NO_SPACE) {
        let reason = format!(
            "{}; compact and defragment etcd or raise its quota, then disarm its alarm (etcdctl alarm disarm)",
            failure.reason()
        );
        return CommitError::Stopped { reason };
    }
    if failure.is_refusal() {
        return CommitError::Stopped { reason: failure.reason() };
    }
    CommitError::Unavailable { reason: failure.reason() }
}
