//! Names of one group belong to one definition each: to the one that had them first.

use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Names {
    pub plural: String,
    pub singular: String,
    pub kind: String,
    pub list_kind: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
}

/// The names that are in use in a group.
#[derive(Default)]
pub struct Taken {
    resources: BTreeSet<String>,
    kinds: BTreeSet<String>,
}

/// Which name of a definition another one has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub reason: &'static str,
    pub message: String,
    /// What it may have nevertheless, as `status.acceptedNames` tells it.
    pub accepted: Value,
}

impl Taken {
    pub fn add(&mut self, names: &Names) {
        let resources = [&names.plural, &names.singular].into_iter().chain(&names.short_names);
        self.resources.extend(resources.filter(|name| !name.is_empty()).cloned());
        self.kinds.extend([&names.kind, &names.list_kind].into_iter().filter(|name| !name.is_empty()).cloned());
    }

    pub fn conflict(&self, names: &Names) -> Option<Conflict> {
        let mut verdict = Verdict { conflict: None, accepted: json!({"plural": "", "kind": ""}) };
        verdict.judge("plural", "PluralConflict", &names.plural, &self.resources);
        verdict.judge("singular", "SingularConflict", &names.singular, &self.resources);
        verdict.judge_short(&names.short_names, &self.resources);
        verdict.judge("kind", "KindConflict", &names.kind, &self.kinds);
        verdict.judge("listKind", "ListKindConflict", &names.list_kind, &self.kinds);
        let Verdict { conflict, mut accepted } = verdict;
        let (reason, message) = conflict?;
        if !names.categories.is_empty() {
            accepted["categories"] = json!(names.categories);
        }
        Some(Conflict { reason, message, accepted })
    }
}

/// The names that are accepted, and why others are not; of several conflicts the last is told.
struct Verdict {
    conflict: Option<(&'static str, String)>,
    accepted: Value,
}

impl Verdict {
    fn judge(&mut self, key: &'static str, reason: &'static str, name: &str, taken: &BTreeSet<String>) {
        if taken.contains(name) {
            self.conflict = Some((reason, in_use(name)));
        } else if !name.is_empty() {
            self.accepted[key] = name.into();
        }
    }

    /// Short names are accepted all or none.
    fn judge_short(&mut self, names: &[String], taken: &BTreeSet<String>) {
        let problems: Vec<String> =
            names.iter().filter(|name| taken.contains(*name)).map(|name| in_use(name)).collect();
        match problems.as_slice() {
            [] if names.is_empty() => {}
            [] => self.accepted["shortNames"] = json!(names),
            [only] => self.conflict = Some(("ShortNamesConflict", only.clone())),
            all => self.conflict = Some(("ShortNamesConflict", format!("[{}]", all.join(", ")))),
        }
    }
}

fn in_use(name: &str) -> String {
    format!("{name:?} is already in use")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(plural: &str, kind: &str, short: &[&str]) -> Names {
        Names {
            plural: plural.into(),
            singular: kind.to_lowercase(),
            kind: kind.into(),
            list_kind: format!("{kind}List"),
            short_names: short.iter().map(|name| (*name).to_owned()).collect(),
            categories: Vec::new(),
        }
    }

    #[test]
    fn a_name_that_another_definition_has_is_not_given_twice() {
        let mut taken = Taken::default();
        taken.add(&names("backups", "Backup", &["bk"]));
        let conflict = |plural, kind, short: &[&str]| {
            taken.conflict(&names(plural, kind, short)).map(|conflict| (conflict.reason, conflict.message))
        };
        assert_eq!(conflict("restores", "Restore", &["rs"]), None);
        let says = |reason, name: &str| Some((reason, format!("{name:?} is already in use")));
        assert_eq!(conflict("restores", "Restore", &["rs", "bk"]), says("ShortNamesConflict", "bk"));
        assert_eq!(conflict("restores", "Backup", &[]), says("ListKindConflict", "BackupList"));
        assert_eq!(conflict("backups", "Restore", &[]), says("PluralConflict", "backups"));
        let partly = taken.conflict(&names("restores", "Restore", &["rs", "bk"])).unwrap().accepted;
        assert_eq!(
            partly,
            json!({"plural": "restores", "singular": "restore", "kind": "Restore", "listKind": "RestoreList"})
        );
        taken.add(&names("others", "Other", &["ot"]));
        let told = taken.conflict(&names("restores", "Restore", &["ot", "bk"])).unwrap().message;
        assert_eq!(told, "[\"ot\" is already in use, \"bk\" is already in use]");
    }
}
