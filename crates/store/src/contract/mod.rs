//! The test suite every engine passes: what a user of the store may rely on.
//!
//! [`store_contract!`](crate::store_contract) makes a test of each function here for an engine. It
//! takes an expression that yields what must live as long as the store, and the store, fresh:
//!
//! ```ignore
//! store_contract!(((), Arc::new(MemoryStore::new())));
//! ```

pub mod interests;
pub mod reads;
pub mod watches;
pub mod writes;

use std::sync::Arc;

use crate::{Committed, Event, Expect, Range, Revision, Splice, Store, Txn, Watch};

/// Makes one test per promise of the contract.
#[macro_export]
macro_rules! store_contract {
    ($open:expr) => {
        $crate::store_contract! { @each $open;
            writes: a_created_key_is_not_overwritten_by_another_create,
            an_update_from_a_stale_read_is_refused,
            a_deleted_key_is_gone_and_its_last_value_is_returned,
            a_refused_transaction_changes_nothing,
            a_transaction_takes_one_revision_for_all_it_changes,
            a_transaction_that_changes_nothing_uses_no_revision,
            a_key_that_comes_back_starts_over,
            the_revision_stands_in_the_bytes,
            concurrent_increments_are_all_counted,
            expired_keys_go_and_the_others_stay,
            a_renewed_key_does_not_expire,
            names_and_values_that_cannot_be_stored_are_refused,
            a_closed_store_takes_no_writes;
            reads: a_range_has_its_keys_in_order_and_no_others,
            pages_show_one_revision_while_writers_go_on,
            every_kept_revision_can_be_read,
            revisions_not_kept_are_refused,
            what_is_derived_is_computed_once;
            watches: a_watch_from_now_sees_what_follows,
            a_watch_from_the_past_misses_nothing,
            a_watch_is_refused_where_history_ends,
            changes_elsewhere_are_not_delivered,
            a_prefix_need_not_end_in_a_slash,
            deletes_carry_the_last_value_and_their_own_revision,
            concurrent_writers_are_seen_once_and_in_order,
            a_transaction_larger_than_a_batch_arrives_whole,
            a_watcher_far_behind_catches_up,
            a_slow_watcher_is_cut_off,
            a_watcher_of_quiet_keys_is_not_cut_off,
            progress_moves_on_when_other_keys_change,
            a_bookmark_never_goes_back,
            a_watcher_that_reconnects_at_its_bookmark_misses_and_repeats_nothing,
            compaction_does_not_disturb_a_watcher_that_keeps_up,
            a_watcher_that_reads_nothing_delays_nobody,
            a_cancelled_wait_loses_nothing,
            a_watch_ends_when_the_store_closes;
            interests: a_watch_of_one_key_sees_that_key_alone,
            a_watch_by_index_sees_what_enters_and_what_leaves,
            a_watch_by_index_from_the_past_misses_nothing,
            a_watch_is_not_woken_by_what_does_not_concern_it,
            an_index_is_asked_only_while_somebody_watches_by_it,
            progress_by_index_is_never_ahead_of_a_change;
        }
    };
    (@each $open:expr; $($module:ident: $($name:ident),+;)+) => {
        $(mod $module {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let (_keep, store) = $open;
                $crate::contract::$module::$name(store).await;
            })+
        })+
    };
}

async fn put(store: &dyn Store, key: &str, value: &str) -> Committed {
    commit(store, Txn::new().put(key, Splice::plain(value))).await
}

async fn delete(store: &dyn Store, key: &str) -> Committed {
    commit(store, Txn::new().delete(key)).await
}

async fn commit(store: &dyn Store, txn: Txn) -> Committed {
    store.commit(txn).await.expect("nothing speaks against it")
}

fn create(key: &str, value: &str) -> Txn {
    Txn::new().check(key, Expect::Absent).put(key, Splice::plain(value))
}

/// The value of a key as text, empty if it is absent.
async fn value(store: &dyn Store, key: &str) -> String {
    let entry = store.get(key).await.expect("a read of the newest revision");
    entry.map(|entry| text(&entry.value)).unwrap_or_default()
}

/// How many keys start with a prefix.
async fn count(store: &dyn Store, prefix: &str) -> usize {
    let page = store.range(Range::prefix(prefix)).await.expect("a read of the newest revision");
    page.entries.len()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Waits until `count` events have come.
async fn events(watch: &mut Watch, count: usize) -> Vec<Arc<Event>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.extend(watch.next().await.expect("the watch goes on"));
    }
    seen
}

fn revisions(events: &[Arc<Event>]) -> Vec<Revision> {
    events.iter().map(|event| event.revision).collect()
}

fn keys(events: &[Arc<Event>]) -> Vec<String> {
    events.iter().map(|event| event.entry.key.to_string()).collect()
}
