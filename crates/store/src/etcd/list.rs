//! Reads of etcd itself: everything at the start, and ranges at revisions the replica does not hold.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use super::channel::{Cluster, RANGE, Repeat};
use super::error::Failure;
use super::keys::Keys;
use super::messages::{RangeRequest, RangeResponse, revision};
use super::value::decode;
use crate::snapshot::Snapshot;
use crate::{Entry, Page, Range, Revision};

/// Keys in one answer.
const PAGE: usize = 500;

/// etcd's words for a revision that it no longer has.
pub(super) const COMPACTED: &str = "mvcc: required revision has been compacted";

/// All keys of ours, at one revision.
pub(super) async fn all(cluster: &Cluster, keys: &Keys) -> Result<Snapshot, Failure> {
    loop {
        match read(cluster, keys, &Range::prefix("")).await {
            Ok(page) => return Ok(Snapshot::new(page.revision, page.entries)),
            // Compacted between two pages: those to come are at a newer revision.
            Err(failure) if failure.says(COMPACTED) => {}
            Err(failure) => return Err(failure),
        }
    }
}

/// A range as etcd has it, now or at the revision it asks for.
pub(super) async fn read(cluster: &Cluster, keys: &Keys, range: &Range) -> Result<Page, Failure> {
    let bounds = keys.bounds(range);
    let (mut start, end) = bounds.clone();
    let mut at = range.at.unwrap_or(0);
    let mut entries: Vec<Arc<Entry>> = Vec::new();
    loop {
        let room = if range.limit == 0 { PAGE } else { PAGE.min(range.limit - entries.len()) };
        let mut request = request(start, end.clone(), at);
        request.limit = i64::try_from(room).unwrap_or(i64::MAX);
        let answer: RangeResponse = cluster.call(RANGE, &request, Repeat::Always).await?;
        if at == 0 {
            at = revision(answer.header.as_ref());
        }
        let found = answer.kvs.iter();
        entries.extend(found.filter_map(|stored| Some(Arc::new(decode(keys.name(&stored.key)?.into(), stored)))));
        let last = answer.kvs.last().filter(|_| answer.more);
        let full = range.limit > 0 && entries.len() >= range.limit;
        match last {
            Some(last) if !full => start = behind(&last.key),
            Some(last) => {
                let mut remaining = usize::try_from(answer.count).unwrap_or(0).saturating_sub(answer.kvs.len());
                let rest = (behind(&last.key), end);
                if keys.marker_is_in(&rest) && marker_is_there(cluster, keys, at).await? {
                    remaining = remaining.saturating_sub(1);
                }
                return Ok(Page { entries, revision: at, remaining });
            }
            None => return Ok(Page { entries, revision: at, remaining: 0 }),
        }
    }
}

async fn marker_is_there(cluster: &Cluster, keys: &Keys, at: Revision) -> Result<bool, Failure> {
    let mut request = request(keys.marker(), Bytes::new(), at);
    request.count_only = true;
    let answer: RangeResponse = cluster.call(RANGE, &request, Repeat::Always).await?;
    Ok(answer.count > 0)
}

fn request(key: Bytes, range_end: Bytes, at: Revision) -> RangeRequest {
    // No revision of etcd is larger, so it is one that is yet to come.
    let revision = i64::try_from(at).unwrap_or(i64::MAX);
    RangeRequest { key, range_end, revision, ..RangeRequest::default() }
}

/// The first key that follows.
fn behind(key: &Bytes) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}
