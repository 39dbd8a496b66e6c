//! Writes of a leader that has lost its Lease are refused, however late they arrive.
//!
//! The header `Pintle-Fence: NAMESPACE/LEASE:TERM[@IDENTITY]` says under which Lease the writer believes to act: `TERM`
//! is the Lease's `leaseTransitions`, `IDENTITY` (percent-encoded) its `holderIdentity`.
//!
//! - The chain checks it before the verb, so that a stale leader always hears the same answer.
//! - It is checked again in the transaction of every write: the commit expects the Lease unchanged since it was read,
//!   and reads it again when it was only renewed. So nothing is committed after another holder was.
//! - What remains possible: who acts without the header is not fenced. An eviction takes from its disruption budget
//!   under the first check only. A Lease that ran out but that nobody else has taken still counts.

use crate::ApiServer;
use crate::call::Call;
use crate::codec;
use crate::notes::Notes;
use crate::registry::{Registry, read_error};
use crate::request::ResourcePath;
use crate::verb::Verb;
use pintle_meta::{Status, object};
use pintle_store::{CommitError, Committed, Expect, Op, Revision, Txn};
use std::sync::Arc;

pub const HEADER: &str = "pintle-fence";
const GROUP: &str = "coordination.k8s.io";
/// How often a Lease that was renewed in between is read again.
const TRIES: usize = 16;

/// The Lease under which a writer believes to act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fence {
    namespace: String,
    lease: String,
    term: i64,
    identity: Option<String>,
}

impl Fence {
    /// Checks the header of a call that changes something.
    pub async fn check(server: &ApiServer, call: &Call) -> Result<(), Status> {
        let Some(fence) = Fence::of(call)? else { return Ok(()) };
        // The answer tells who holds the Lease.
        let path = ResourcePath {
            group: GROUP.to_owned(),
            resource: "leases".to_owned(),
            namespace: fence.namespace.clone(),
            name: fence.lease.clone(),
            ..ResourcePath::default()
        };
        server.authorizer.authorize(&Call::asks(call.user.clone(), Verb::Get, path), &Notes::new()).await?;
        fence.read(&server.registry).await?;
        Ok(())
    }

    /// The fence under which a call writes, if it names one.
    pub fn of(call: &Call) -> Result<Option<Fence>, Status> {
        let Some(value) = call.headers.get(HEADER).filter(|_| call.verb.is_mutating()) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let unreadable =
            || Status::bad_request(format!("the header Pintle-Fence is {text:?}, not NAMESPACE/LEASE:TERM[@IDENTITY]"));
        Fence::parse(text).map(Some).ok_or_else(unreadable)
    }

    fn parse(text: &str) -> Option<Fence> {
        let (namespace, rest) = text.split_once('/')?;
        let (rest, identity) = match rest.split_once('@') {
            Some((rest, identity)) => (rest, Some(pintle_meta::query::decode(identity))),
            None => (rest, None),
        };
        let (lease, term) = rest.rsplit_once(':')?;
        let named = [namespace, lease].iter().all(|part| !part.is_empty() && !part.contains(['/', ':']));
        let term: i64 = term.parse().ok().filter(|term| *term >= 0)?;
        named.then(|| Fence { namespace: namespace.into(), lease: lease.into(), term, identity })
    }

    /// The Lease's key and revision, if it is still the writer's.
    async fn read(&self, registry: &Registry) -> Result<(Arc<str>, Revision), Status> {
        let catalogue = registry.catalogue.latest();
        let resource = catalogue.get(GROUP, "v1", "leases").ok_or_else(Status::no_such_resource)?;
        let key: Arc<str> = resource.key(&self.namespace, &self.lease).into();
        drop(catalogue);
        let Some(entry) = registry.store.get(&key).await.map_err(read_error)? else {
            return Err(self.refused("the Lease is gone"));
        };
        let lease = codec::decode(&entry.value);
        let term = object::integer(&lease, &["spec", "leaseTransitions"]).unwrap_or(0);
        let holder = object::text(&lease, &["spec", "holderIdentity"]);
        let whose = if holder.is_empty() { "nobody holds it".to_owned() } else { format!("{holder:?} holds it") };
        // A term ahead of the Lease's was given by an older Lease of that name.
        if term != self.term {
            return Err(self.refused(&format!("the Lease is in term {term} now and {whose}")));
        }
        match &self.identity {
            Some(identity) if identity != holder => Err(self.refused(&format!("not {identity:?} but {whose}"))),
            _ => Ok((key, entry.mod_revision)),
        }
    }

    fn refused(&self, why: &str) -> Status {
        let Fence { namespace, lease, term, .. } = self;
        let why = format!(
            "this writer leads no longer: it acts for term {term} of Lease {namespace}/{lease}, but {why}. Stop and compete for the Lease again"
        );
        Status::conflict(GROUP, "leases", lease, &why)
    }

    /// Commits a transaction on the condition that the Lease is the writer's at that moment.
    pub(crate) async fn commit(&self, registry: &Registry, txn: Txn) -> Result<Result<Committed, CommitError>, Status> {
        for _ in 0..TRIES {
            let (lease, revision) = self.read(registry).await?;
            let mut checked = copy(&txn);
            // The leader's own renewals say what they expect of the Lease themselves.
            if !checked.checks.iter().any(|(key, _)| *key == lease) {
                checked.checks.push((lease.clone(), Expect::Revision(revision)));
            }
            match registry.store.commit(checked).await {
                Err(CommitError::Conflict { key, .. })
                    if key == lease && !txn.checks.iter().any(|(k, _)| *k == lease) => {}
                other => return Ok(other),
            }
        }
        Err(Status::unavailable(format!(
            "Lease {}/{} changes faster than a write under it can be made",
            self.namespace, self.lease
        )))
    }
}

fn copy(txn: &Txn) -> Txn {
    let ops = txn.ops.iter().map(|op| match op {
        Op::Put { key, value, expires_at } => {
            Op::Put { key: key.clone(), value: value.clone(), expires_at: *expires_at }
        }
        Op::Delete { key } => Op::Delete { key: key.clone() },
    });
    Txn { checks: txn.checks.clone(), ops: ops.collect(), durability: txn.durability }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_names_lease_term_and_holder() {
        let plain = Fence { namespace: "kube-system".into(), lease: "at.x".into(), term: 3, identity: None };
        assert_eq!(Fence::parse("kube-system/at.x:3"), Some(plain.clone()));
        let held = Fence { identity: Some("a/b@c:d é".into()), ..plain };
        assert_eq!(Fence::parse("kube-system/at.x:3@a%2Fb%40c:d%20%C3%A9"), Some(held));
        for bad in ["", "x", "a/b", "a/b:", "a/b:x", "a/b:-1", "/b:1", "a/:1", "a/b/c:1", "a/b:1:2", "a/b@x:1"] {
            assert_eq!(Fence::parse(bad), None, "{bad}");
        }
    }
}
