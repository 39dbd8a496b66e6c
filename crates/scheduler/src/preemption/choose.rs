//! Of several nodes, the one where making room does the least harm.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::Candidate;

/// What one node costs; the least is best. In the order in which the fields decide.
type Harm = (i64, i32, i64, usize, Reverse<Timestamp>);

/// The first among equals. Nothing if there is no candidate.
pub(crate) fn choose(candidates: Vec<Candidate>) -> Option<Candidate> {
    candidates.into_iter().min_by_key(harm)
}

fn harm(candidate: &Candidate) -> Harm {
    let priorities = || candidate.victims.iter().map(|victim| victim.pod.priority);
    // Counted from the lowest there is, so that more Pods of a negative priority are not less harm than fewer.
    let sum = priorities().map(|priority| i64::from(priority) - i64::from(i32::MIN)).fold(0, i64::saturating_add);
    let most_important = candidate.victims.first().map_or(i32::MIN, |victim| victim.pod.priority);
    // Of the most important ones that has run for longest: its time is the most that is lost.
    let highest = priorities().max().unwrap_or(i32::MIN);
    let longest = candidate.victims.iter().filter(|victim| victim.pod.priority == highest);
    let began = longest.map(|victim| victim.started).min().unwrap_or(Timestamp::MIN);
    (candidate.violations, most_important, sum, candidate.victims.len(), Reverse(began))
}
