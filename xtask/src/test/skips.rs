//! What ran and what did not: counted from libtest's output and from what tests have written to `PINTLE_SKIPS`.

use std::collections::BTreeMap;
use std::fmt;

/// What a machine cannot be given by installing something: a test that needs it is excused.
const NOT_INSTALLED: [&str; 3] = ["root", "a user other than root", "the Go module proxy"];

/// A test that returned early, and what it needed.
#[derive(Debug, PartialEq)]
pub(crate) struct Skip {
    test: String,
    missing: Vec<String>,
}

impl Skip {
    /// Whether another user, or a machine with a network, would have to run it.
    fn is_excused(&self) -> bool {
        self.missing.iter().any(|missing| NOT_INSTALLED.contains(&missing.as_str()))
    }
}

#[derive(Default)]
pub(crate) struct Summary {
    passed: usize,
    failed: usize,
    /// Tests marked `#[ignore]`, with the reason.
    ignored: Vec<(String, String)>,
    skips: Vec<Skip>,
}

impl Summary {
    /// Takes a line of libtest's output into account.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
        } else if let Some((name, reason)) = line.strip_prefix("test ").and_then(|test| test.split_once(" ... ignored"))
        {
            self.ignored.push((name.to_owned(), reason.trim_start_matches(", ").to_owned()));
        }
    }

    /// Takes the file of skipped tests into account; libtest has counted them as passed.
    pub(crate) fn skipped(&mut self, file: &str) {
        for line in file.lines() {
            let mut fields = line.split('\t').map(str::to_owned);
            let Some(test) = fields.next() else { continue };
            self.skips.push(Skip { test, missing: fields.collect() });
        }
        self.passed = self.passed.saturating_sub(self.skips.len());
    }

    /// The skipped tests that have no excuse.
    pub(crate) fn unexcused(&self) -> usize {
        self.skips.iter().filter(|skip| !skip.is_excused()).count()
    }
}

/// The number before a word.
fn count(text: &str, word: &str) -> usize {
    let words: Vec<&str> = text.split([' ', ';']).filter(|word| !word.is_empty()).collect();
    let found = words.windows(2).find(|pair| pair[1] == word);
    found.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (ignored, skipped) = (self.ignored.len(), self.skips.len());
        writeln!(f, "{} passed, {} failed, {ignored} ignored, {skipped} skipped", self.passed, self.failed)?;
        for (name, reason) in &self.ignored {
            writeln!(f, "  ignored: {name} ({reason})")?;
        }
        let mut by_need: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for skip in &self.skips {
            by_need.entry(skip.missing.join(", ")).or_default().push(&skip.test);
        }
        for (need, tests) in by_need {
            writeln!(f, "  skipped, needs {need}: {} tests", tests.len())?;
            tests.iter().try_for_each(|test| writeln!(f, "    {test}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "running 3 tests\ntest a ... ok\ntest slow ... ignored, a measurement\ntest b ... FAILED\n\
        test result: FAILED. 4 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.03s\n\
        test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n";

    fn summary(skips: &str) -> Summary {
        let mut summary = Summary::default();
        OUTPUT.lines().for_each(|line| summary.line(line));
        summary.skipped(skips);
        summary
    }

    #[test]
    fn a_skipped_test_is_not_told_as_passed() {
        let said = summary("real::pods\troot\tcontainerd\nhelper\tgo\nreal::probes\troot\tcontainerd\n").to_string();
        assert_eq!(
            said,
            "11 passed, 1 failed, 1 ignored, 3 skipped\n  ignored: slow (a measurement)\n\
             \x20 skipped, needs go: 1 tests\n    helper\n\
             \x20 skipped, needs root, containerd: 2 tests\n    real::pods\n    real::probes\n"
        );
    }

    #[test]
    fn only_what_the_user_cannot_do_is_excused() {
        assert_eq!(summary("real::pods\troot\tcontainerd\nclosed\ta user other than root\n").unexcused(), 0);
        assert_eq!(summary("real::pods\tcontainerd\nhelper\tgo\n").unexcused(), 2);
    }
}
