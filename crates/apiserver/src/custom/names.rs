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
        let mut conflict: Option<(&'static str, String)> = None;
        let mut accepted = json!({"plural": "", "kind": ""});
        let mut judge = |key: &'static str, reason: &'static str, name: &str, among: &BTreeSet<String>| {
            if among.contains(name) {
                conflict = Some((reason, format!("{name:?} is already in use")));
            } else if !name.is_empty() {
                accepted[key] = name.into();
            }
        };
        judge("plural", "PluralConflict", &names.plural, &self.resources);
        judge("singular", "SingularConflict", &names.singular, &self.resources);
        for name in &names.short_names {
            judge("shortNames", "ShortNamesConflict", name, &self.resources);
        }
        judge("kind", "KindConflict", &names.kind, &self.kinds);
        judge("listKind", "ListKindConflict", &names.list_kind, &self.kinds);
        let (reason, message) = conflict?;
        let short: Vec<&String> = names.short_names.iter().filter(|name| !self.resources.contains(*name)).collect();
        match short.is_empty() {
            true => _ = accepted.as_object_mut().map(|map| map.remove("shortNames")),
            false => accepted["shortNames"] = json!(short),
        }
        if !names.categories.is_empty() {
            accepted["categories"] = json!(names.categories);
        }
        Some(Conflict { reason, message, accepted })
    }
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
            json!({"plural": "restores", "singular": "restore", "shortNames": ["rs"], "kind": "Restore", "listKind": "RestoreList"})
        );
    }
}
