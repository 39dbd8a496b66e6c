//! The order in which discovery shows groups and their versions: that of their APIServices.

use super::{Catalogue, Resource};
use crate::kept::api_services;
use pintle_meta::names::version_priority;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Before all others, and without an APIService.
const FIRST: &str = "apiregistration.k8s.io";

/// Where a backend's version stands that has no APIService: where Kubernetes' add-ons stand.
const BACKEND: (i64, i64) = (100, 100);

/// A group and its versions, in the order in which discovery shows them.
pub struct Group {
    pub name: String,
    pub versions: Vec<String>,
}

/// The place of a version: its group's priority and its own.
struct Version {
    group_priority: i64,
    priority: i64,
    name: String,
}

impl Catalogue {
    /// Every group but the core group: of this server and of others.
    pub fn groups(&self) -> Vec<Group> {
        let mut groups: HashMap<&str, Vec<Version>> = HashMap::new();
        let mut add = |group, version: &str, resource: Option<&Resource>| {
            let versions: &mut Vec<Version> = groups.entry(group).or_default();
            if versions.iter().any(|known| known.name == version) {
                return;
            }
            let mut place = self.registrations.place(group, version);
            if place == api_services::CUSTOM && resource.is_some_and(|resource| resource.backend.is_some()) {
                place = BACKEND;
            }
            versions.push(Version { group_priority: place.0, priority: place.1, name: version.to_owned() });
        };
        for resource in self.resources().filter(|resource| !resource.group.is_empty()) {
            add(&resource.group, &resource.version, Some(resource));
        }
        for (_, registered) in self.registrations.all().filter(|(_, registered)| !registered.group.is_empty()) {
            add(&registered.group, &registered.version, None);
        }
        let mut groups: Vec<(&str, Vec<Version>)> = groups.into_iter().collect();
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| Reverse((version.priority, version_priority(&version.name))));
        }
        groups.sort_by_cached_key(|(name, versions)| {
            let priority = versions.iter().map(|version| version.group_priority).max();
            (*name != FIRST, Reverse(priority), (*name).to_owned())
        });
        let named = |versions: Vec<Version>| versions.into_iter().map(|version| version.name).collect();
        groups.into_iter().map(|(name, versions)| Group { name: name.to_owned(), versions: named(versions) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn groups_stand_in_the_order_of_their_priorities() {
        let mut catalogue = Catalogue::default();
        let names = |catalogue: &Catalogue| catalogue.groups().into_iter().map(|group| group.name).collect::<Vec<_>>();
        let before = names(&catalogue);
        assert_eq!(before[..4], ["apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io"]);
        let mut register = |version: &str, group_priority: i64, priority: i64| {
            let service = json!({"spec": {"group": "a.example.com", "version": version, "service": {"name": "s"},
                "groupPriorityMinimum": group_priority, "versionPriority": priority}});
            catalogue.registrations.change(&format!("{version}.a.example.com"), Some(service.to_string().as_bytes()));
        };
        register("v1", 100, 10);
        register("v2beta1", 17790, 5);
        register("v2", 100, 10);
        let groups = catalogue.groups();
        assert_eq!(groups[2].name, "a.example.com");
        assert_eq!(groups[2].versions, ["v2", "v1", "v2beta1"]);
    }
}
