//! Feature gates: which of Kubernetes' features can be switched here. A gate that cannot be is refused, never ignored.

use std::collections::BTreeSet;

/// The features that are switched by gates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    /// Impersonation by rights for one kind of user and one thing, beside the right on users as a whole.
    pub constrained_impersonation: bool,
    /// Watches that send what is there before what changes.
    pub watch_list: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Gates { constrained_impersonation: true, watch_list: true }
    }
}

/// Why a list of gates cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    #[error("{0:?} has no value: give NAME=true or NAME=false")]
    NoValue(String),
    #[error("invalid value of {gate}: {value:?} is neither true nor false")]
    NotBoolean { gate: String, value: String },
    #[error("{0} is named twice")]
    Twice(String),
    #[error("unrecognized feature gate: {0}")]
    Unknown(String),
    #[error(
        "feature gate {gate} cannot be switched here: leave it out (in Kubernetes v1.36 it is {stage} and {default} by default). {} can be switched",
        Gates::SWITCHES.join(" and ")
    )]
    Fixed { gate: String, stage: &'static str, default: &'static str },
}

impl Gates {
    const SWITCHES: [&'static str; 2] = ["ConstrainedImpersonation", "WatchList"];

    /// `NAME=true,NAME=false`.
    pub fn parse(list: &str) -> Result<Self, GateError> {
        let (mut gates, mut seen) = (Gates::default(), BTreeSet::new());
        for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').ok_or_else(|| GateError::NoValue(word.to_owned()))?;
            let (name, value) = (name.trim(), value.trim());
            if !seen.insert(name) {
                return Err(GateError::Twice(name.to_owned()));
            }
            let switch = gates.switch(name)?;
            *switch = boolean(value)
                .ok_or_else(|| GateError::NotBoolean { gate: name.to_owned(), value: value.to_owned() })?;
        }
        Ok(gates)
    }

    fn switch(&mut self, name: &str) -> Result<&mut bool, GateError> {
        match name {
            "ConstrainedImpersonation" => Ok(&mut self.constrained_impersonation),
            "WatchList" => Ok(&mut self.watch_list),
            name => Err(fixed(name)),
        }
    }
}

/// Of the gates that Kubernetes has: its name, its stage and its default in v1.36.
fn known() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    include_str!("../facts/gates.tsv").lines().skip(1).filter_map(|row| {
        let mut columns = row.split('\t');
        Some((columns.next()?, columns.next()?, columns.next()?))
    })
}

fn fixed(name: &str) -> GateError {
    match known().find(|row| row.0 == name) {
        Some((gate, stage, default)) => GateError::Fixed { gate: gate.to_owned(), stage, default },
        None => GateError::Unknown(name.to_owned()),
    }
}

/// As Go reads a flag.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_is_switched_or_refused_and_never_ignored() {
        assert_eq!(Gates::parse(""), Ok(Gates::default()));
        let gates = Gates::parse("WatchList=false, ConstrainedImpersonation=true").unwrap();
        assert_eq!(gates, Gates { watch_list: false, constrained_impersonation: true });
        for (list, why) in [
            ("WatchList", "\"WatchList\" has no value"),
            ("WatchList=maybe", "invalid value of WatchList"),
            ("WatchList=true,WatchList=false", "WatchList is named twice"),
            ("WatchLists=true", "unrecognized feature gate: WatchLists"),
            ("AllAlpha=true", "AllAlpha cannot be switched here"),
            ("JobPodReplacementPolicy=true", "it is GA and on by default"),
        ] {
            let said = Gates::parse(list).unwrap_err().to_string();
            assert!(said.contains(why), "{list}: {said}");
        }
    }

    #[test]
    fn every_switch_is_a_gate_of_kubernetes_with_its_default() {
        for name in Gates::SWITCHES {
            let row = known().find(|row| row.0 == name).unwrap_or_else(|| panic!("{name} is no gate"));
            assert_eq!(*Gates::default().switch(name).unwrap(), row.2 == "on", "{name}");
        }
        assert!(known().count() > 200);
    }
}
