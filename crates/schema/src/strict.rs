//! What strict decoding finds in a body: unknown and duplicate fields, few and short enough for an answer.

use std::collections::HashSet;

/// More findings than this are not listed: a hostile body must not make a long answer.
const MAX_FINDINGS: usize = 100;

/// Longer paths are cut: keys nested in long keys would repeat them in every path.
pub const MAX_PATH_BYTES: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Problem {
    Unknown,
    Duplicate,
}

/// One field that strict decoding refuses.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    pub problem: Problem,
    pub path: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let problem = match self.problem {
            Problem::Unknown => "unknown",
            Problem::Duplicate => "duplicate",
        };
        write!(f, "{problem} field {:?}", self.path)
    }
}

/// The findings of one body, each once, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Findings {
    list: Vec<Finding>,
    seen: HashSet<Finding>,
}

impl Findings {
    pub fn new() -> Self {
        Findings::default()
    }

    /// Nothing more is listed: building another path would be a waste.
    pub fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS
    }

    pub fn add(&mut self, problem: Problem, mut path: String) {
        if self.is_full() {
            return;
        }
        if path.len() > MAX_PATH_BYTES {
            let cut = (0..=MAX_PATH_BYTES).rev().find(|at| path.is_char_boundary(*at)).unwrap_or(0);
            path.truncate(cut);
            path.push_str("...");
        }
        let finding = Finding { problem, path };
        if self.seen.insert(finding.clone()) {
            self.list.push(finding);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn into_vec(self) -> Vec<Finding> {
        self.list
    }

    /// `unknown field "spec.foo"`, one message per field.
    pub fn messages(&self) -> Vec<String> {
        self.list.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_body_makes_a_short_list() {
        let mut findings = Findings::new();
        for index in 0..10_000 {
            findings.add(Problem::Unknown, format!("{}.{}", "é".repeat(100_000), index % 7));
            findings.add(Problem::Duplicate, index.to_string());
        }
        let messages = findings.messages();
        assert_eq!(messages.len(), MAX_FINDINGS);
        assert!(messages.iter().all(|message| message.len() < 2 * MAX_PATH_BYTES));
    }
}
