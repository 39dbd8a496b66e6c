//! How many keys each loop works on at once, where an operator says it: `deployment=5,job=10`.

use crate::roster::roster;
use std::collections::BTreeMap;

/// Loops that can work on several keys at once. The others work on one at a time because their keys share what they decide about:
/// addresses, ranges, volumes.
const CONCURRENT: [&str; 17] = [
    "deployment",
    "replicaset",
    "replicationcontroller",
    "daemonset",
    "statefulset",
    "job",
    "cronjob",
    "ttlafterfinished",
    "horizontalpodautoscaler",
    "podgc",
    "garbage",
    "namespace",
    "endpointslice",
    "endpointslicemirroring",
    "nodelifecycle",
    "tainteviction",
    "resourcequota",
];

const MAX_WORKERS: usize = 1000;

/// What was said; every other loop knows its number itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Concurrency(BTreeMap<&'static str, usize>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConcurrencyError {
    #[error("{0:?} is not LOOP=NUMBER")]
    Malformed(String),
    #[error("there is no loop {name:?}; those with a number are {}", CONCURRENT.join(", "))]
    Unknown { name: String },
    #[error("{name} works on one key at a time; those with a number are {}", CONCURRENT.join(", "))]
    Serial { name: String },
    #[error("{name} can work on 1 to {MAX_WORKERS} keys at once, not {number:?}")]
    Number { name: &'static str, number: String },
    #[error("{0} is named twice")]
    Twice(&'static str),
}

impl Concurrency {
    pub fn parse(list: &str) -> Result<Self, ConcurrencyError> {
        let mut all = BTreeMap::new();
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let pair = word.split_once('=').map(|(name, number)| (name.trim(), number.trim()));
            let (name, number) = pair.ok_or_else(|| ConcurrencyError::Malformed(word.to_owned()))?;
            let name = concurrent(name)?;
            let count = number.parse().ok().filter(|count| (1..=MAX_WORKERS).contains(count));
            let count = count.ok_or_else(|| ConcurrencyError::Number { name, number: number.to_owned() })?;
            if all.insert(name, count).is_some() {
                return Err(ConcurrencyError::Twice(name));
            }
        }
        Ok(Concurrency(all))
    }

    pub(crate) fn of(&self, name: &str) -> Option<usize> {
        self.0.get(name).copied()
    }
}

fn concurrent(name: &str) -> Result<&'static str, ConcurrencyError> {
    if let Some(known) = CONCURRENT.into_iter().find(|known| *known == name) {
        return Ok(known);
    }
    let name = name.to_owned();
    match roster().iter().any(|known| known.name == name) {
        true => Err(ConcurrencyError::Serial { name }),
        false => Err(ConcurrencyError::Unknown { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_for_a_loop_that_can_have_one() {
        let told = Concurrency::parse("deployment=5, job=10").unwrap();
        assert_eq!((told.of("deployment"), told.of("job"), told.of("replicaset")), (Some(5), Some(10), None));
        assert_eq!(Concurrency::parse(""), Ok(Concurrency::default()));
        for (list, why) in [
            ("deployment", "\"deployment\" is not LOOP=NUMBER"),
            ("deploymnet=5", "there is no loop \"deploymnet\"; those with a number are deployment, "),
            ("nodeipam=2", "nodeipam works on one key at a time"),
            ("job=0", "job can work on 1 to 1000 keys at once, not \"0\""),
            ("job=many", "not \"many\""),
            ("job=1,job=2", "job is named twice"),
        ] {
            let said = Concurrency::parse(list).unwrap_err().to_string();
            assert!(said.contains(why), "{list}: {said}");
        }
    }

    #[test]
    fn every_loop_with_a_number_is_one_of_the_roster() {
        for name in CONCURRENT {
            assert!(roster().iter().any(|known| known.name == name), "{name}");
        }
    }
}
