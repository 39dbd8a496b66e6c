//! The specs that passed before, one per line, and how a run compares with them.

use super::suite::{Outcome, State};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// How much of a failure is kept: enough to see what it was about.
const MAX_FAILURE_CHARS: usize = 600;

#[derive(Default)]
pub(super) struct Passing(BTreeSet<String>);

/// What a run shows that the list does not.
pub(super) struct Change<'a> {
    /// In the list, and run, but not passed.
    pub(super) lost: Vec<&'a Outcome>,
    /// Passed, but not in the list.
    pub(super) gained: Vec<String>,
}

impl Passing {
    pub(super) fn read(file: &Path) -> Result<Passing> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        Ok(Passing::parse(&text))
    }

    fn parse(text: &str) -> Passing {
        Passing(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// Specs that were not run are not judged: a run may be narrowed to some.
    pub(super) fn compare<'a>(&self, outcomes: &'a [Outcome]) -> Change<'a> {
        let (passed, others): (Vec<&Outcome>, Vec<&Outcome>) =
            outcomes.iter().partition(|outcome| outcome.state == State::Passed);
        let gained = passed.iter().filter(|outcome| !self.contains(&outcome.name));
        Change {
            gained: gained.map(|outcome| outcome.name.clone()).collect(),
            lost: others.into_iter().filter(|outcome| self.contains(&outcome.name)).collect(),
        }
    }

    pub(super) fn add(&mut self, names: Vec<String>) {
        self.0.extend(names);
    }

    pub(super) fn write(&self, file: &Path) -> Result<()> {
        let text: String = self.0.iter().map(|name| format!("{name}\n")).collect();
        std::fs::write(file, text).with_context(|| file.display().to_string())
    }
}

/// A table of all outcomes: spec, result, seconds, the first lines of the failure.
pub(super) fn results(outcomes: &[Outcome]) -> String {
    format!("spec\tresult\tseconds\tfailure\n{}", outcomes.iter().map(row).collect::<String>())
}

pub(super) fn row(outcome: &Outcome) -> String {
    let failure = first_lines(&outcome.failure);
    format!("{}\t{}\t{:.1}\t{failure}\n", outcome.name, outcome.state.as_str(), outcome.seconds)
}

/// A failure on one line of a table.
fn first_lines(failure: &str) -> String {
    let lines = failure.lines().map(str::trim).filter(|line| !line.is_empty()).take(6);
    let line = lines.collect::<Vec<_>>().join(" | ").replace('\t', " ");
    line.chars().take(MAX_FAILURE_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: &str, state: State) -> Outcome {
        Outcome { name: name.to_owned(), state, seconds: 1.25, failure: String::new() }
    }

    #[test]
    fn a_spec_that_passed_before_and_does_not_now_is_named() {
        let passing = Passing::parse("a\nb\n\nc\nd\n");
        let outcomes = [
            outcome("a", State::Passed),
            outcome("b", State::Failed),
            outcome("c", State::NotRun),
            outcome("new", State::Passed),
            outcome("never", State::Failed),
        ];
        let change = passing.compare(&outcomes);
        assert_eq!(change.lost.iter().map(|lost| lost.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(change.gained, ["new"]);
    }

    #[test]
    fn the_list_grows_in_order_and_loses_nothing() {
        let directory = std::env::temp_dir().join(format!("xtask-list-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let file = directory.join("passing.txt");
        let mut passing = Passing::parse("b\nd\n");
        passing.add(vec!["c".to_owned(), "b".to_owned()]);
        passing.write(&file).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "b\nc\nd\n");
        assert!(Passing::read(&file).unwrap().contains("c"));
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_failure_takes_one_line_of_the_table() {
        let failed = Outcome { failure: "first\t1\n\n  second\n".into(), ..outcome("a", State::Failed) };
        assert_eq!(results(&[failed]), "spec\tresult\tseconds\tfailure\na\tfailed\t1.2\tfirst 1 | second\n");
    }

    #[test]
    fn the_committed_list_is_in_order_without_duplicates() {
        let text = include_str!("../../conformance/passing.txt");
        let in_order: String = Passing::parse(text).0.iter().map(|name| format!("{name}\n")).collect();
        assert_eq!(text, in_order);
    }
}
