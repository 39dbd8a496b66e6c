//! Histories of the engines without a fault, and of stores with one each that the checker must find.

use super::planted::{Fault, Machine, PLANTED};
use super::subjects::{FileSubject, MemorySubject, PowerSubject};
use super::{History, Plan, Subject, check, record};
use crate::Options;

/// How many histories of how many operations: the environment says, or what fits into a test run.
fn histories() -> Vec<Plan> {
    let number = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let operations = number("PINTLE_HISTORY_OPS").unwrap_or(2000) as usize;
    let plan = |seed| Plan { operations, ..Plan::seeded(seed) };
    match number("PINTLE_SEED") {
        Some(seed) => vec![plan(seed)],
        None => (1..=number("PINTLE_HISTORIES").unwrap_or(4)).map(plan).collect(),
    }
}

/// What a number of histories came to.
#[derive(Default)]
struct Tally {
    histories: usize,
    operations: usize,
    watches: usize,
    crashes: usize,
}

impl Tally {
    /// Counts a history, which must be without violations.
    fn take(&mut self, history: &History, engine: &str) {
        let violations = check(history);
        let text: Vec<_> = violations.iter().map(ToString::to_string).collect();
        assert!(
            violations.is_empty(),
            "{engine}: {} violations, first ones first; run again with PINTLE_SEED={} PINTLE_HISTORY_OPS={}\n{}",
            violations.len(),
            history.seed,
            history.operations.len(),
            text.join("\n")
        );
        assert!(history.operations.len() > 400, "{engine}: a history that short shows nothing");
        self.histories += 1;
        self.operations += history.operations.len();
        self.watches += history.watches.len();
        self.crashes += history.lives.len() - 1;
    }

    fn print(&self, engine: &str) {
        println!(
            "{engine}: {} histories, {} operations, {} watches, {} crashes, 0 violations",
            self.histories, self.operations, self.watches, self.crashes
        );
    }
}

pub(super) fn on_one_thread(subject: &mut dyn Subject, plan: &Plan) -> History {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(record(subject, plan))
}

#[test]
fn clients_of_the_memory_engine_see_one_order() {
    let mut tally = Tally::default();
    for plan in histories() {
        tally.take(&on_one_thread(&mut MemorySubject::default(), &plan), "memory");
    }
    tally.print("memory");
}

#[test]
fn a_seed_gives_the_same_history_again() {
    let plan = Plan { operations: 500, ..Plan::seeded(11) };
    let run = || on_one_thread(&mut MemorySubject::default(), &plan);
    assert_eq!(run(), run());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_the_file_engine_see_one_order_and_lose_nothing() {
    let mut tally = Tally::default();
    for plan in histories() {
        let dir = tempfile::tempdir().expect("a directory");
        let history = record(&mut FileSubject::new(dir.path(), Options::default()), &plan).await;
        tally.take(&history, "file");
    }
    tally.print("file");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_machine_that_loses_power_see_one_order_and_lose_nothing() {
    let mut tally = Tally::default();
    for plan in histories() {
        let history = record(&mut PowerSubject::new(plan.seed), &plan).await;
        tally.take(&history, "file on a disk that loses power");
    }
    tally.print("file on a disk that loses power");
}

#[test]
fn power_cuts_that_take_only_relaxed_writes_are_no_violation() {
    let mut tally = Tally::default();
    for plan in histories() {
        tally.take(&on_one_thread(&mut Machine::new(Fault::None, plan.seed), &plan), "machine");
    }
    tally.print("machine");
}

/// The size is that of the short form whatever the environment says: a checker that needs more to
/// see a fault is too weak.
#[test]
fn the_checker_finds_every_planted_bug() {
    let mut missed = Vec::new();
    for (fault, kinds) in PLANTED {
        let caught = (1..=4).find_map(|seed| {
            let history = on_one_thread(&mut Machine::new(fault, seed), &Plan::seeded(seed));
            check(&history).into_iter().find(|violation| kinds.contains(&violation.kind))
        });
        match caught {
            Some(violation) => println!("{fault:?}: {violation}"),
            None => missed.push(fault),
        }
    }
    println!("planted bugs caught: {} of {}", PLANTED.len() - missed.len(), PLANTED.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
