//! What each watch delivered against what it should have: ordered, unique, complete, whole.

use super::super::log::{SeenEvent, Step, WatchLog};
use super::Evidence;
use super::timeline::Timeline;
use super::violation::{Findings, Kind};
use crate::Revision;

pub(super) fn check(evidence: &Evidence<'_>, timelines: &[Timeline], findings: &mut Findings) {
    for watch in evidence.history.watches.iter().filter(|watch| watch.refused.is_none()) {
        let made = timelines[watch.life].made().range(watch.after + 1..);
        let events = made.flat_map(|(_, made)| &made.events);
        let wanted: Vec<&SeenEvent> = events.filter(|event| event.entry.key.starts_with(&watch.prefix)).collect();
        if let Err((kind, what)) = follow(evidence, watch, &wanted) {
            let who =
                if watch.client == usize::MAX { "the auditor".into() } else { format!("client {}", watch.client) };
            let what = format!(
                "the watch of {:?} after {} that {who} opened at {} in life {}: {what}",
                watch.prefix, watch.after, watch.invoked, watch.life
            );
            findings.add(kind, what, &[]);
        }
    }
}

/// Walks through a watch; the first fault ends it, as all that follows would be out of step.
fn follow(evidence: &Evidence<'_>, watch: &WatchLog, wanted: &[&SeenEvent]) -> Result<(), (Kind, String)> {
    let mut delivered = 0;
    let mut progress = watch.after;
    let mut last = watch.after;
    for (tick, step) in &watch.steps {
        match step {
            Step::Batch(events) => {
                if events.first().is_some_and(|first| delivered > 0 && first.revision == last) {
                    return Err((Kind::WatchTorn, format!("revision {last} came in two batches")));
                }
                for event in events {
                    match wanted.get(delivered) {
                        Some(next) if *next == event => delivered += 1,
                        next => return Err(fault(watch, &wanted[..delivered], next.copied(), event)),
                    }
                    last = event.revision;
                }
                if wanted.get(delivered).is_some_and(|next| next.revision == last) {
                    return Err((Kind::WatchTorn, format!("a batch ended within revision {last}")));
                }
            }
            Step::Progress(at) => {
                if *at < progress.max(last) {
                    let what = format!("its bookmark went back to {at} from {}", progress.max(last));
                    return Err((Kind::BookmarkAhead, what));
                }
                progress = *at;
                complete(wanted, delivered, *at).map_err(|what| (Kind::BookmarkAhead, what))?;
            }
            Step::Drained(revision) => {
                complete(wanted, delivered, *revision).map_err(|what| (Kind::WatchMissed, what))?;
            }
            Step::Ended(error) => {
                let refusal = evidence.refusal(error, progress, (watch.life, *tick), 0);
                refusal.map_err(|why| (Kind::FalseRefusal, why))?;
            }
        }
    }
    Ok(())
}

fn complete(wanted: &[&SeenEvent], delivered: usize, up_to: Revision) -> Result<(), String> {
    match wanted.get(delivered) {
        Some(next) if next.revision <= up_to => {
            Err(format!("it says it is at {up_to}, without having delivered {next:?}"))
        }
        _ => Ok(()),
    }
}

/// Names what is wrong with an event that is not the next one.
fn fault(watch: &WatchLog, before: &[&SeenEvent], next: Option<&SeenEvent>, event: &SeenEvent) -> (Kind, String) {
    if before.contains(&event) {
        return (Kind::WatchRepeated, format!("it delivered twice {event:?}"));
    }
    let Some(next) = next else {
        return (Kind::WatchWrongEvent, format!("it delivered what never happened under its prefix: {event:?}"));
    };
    if (next.revision, &next.entry.key) == (event.revision, &event.entry.key) {
        return (Kind::WatchWrongEvent, format!("it delivered {event:?}, which should be {next:?}"));
    }
    let came_later = watch.steps.iter().any(|(_, step)| matches!(step, Step::Batch(events) if events.contains(next)));
    if came_later {
        (Kind::WatchDisordered, format!("it delivered {event:?} before {next:?}"))
    } else {
        (Kind::WatchMissed, format!("it delivered {event:?} without {next:?} before it"))
    }
}
