//! Group, version, kind and resource: how the API names what it serves.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionKind {
    pub group: String,
    pub version: String,
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupVersionResource {
    pub group: String,
    pub version: String,
    pub resource: String,
}

impl GroupVersionKind {
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        GroupVersionKind { group: group.into(), version: version.into(), kind: kind.into() }
    }

    /// From `apps/v1` or `v1` and a kind.
    pub fn parse(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        GroupVersionKind::new(group, version, kind)
    }

    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

impl GroupVersionResource {
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        GroupVersionResource { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }
}

/// `apps/v1` becomes `("apps", "v1")`; `v1` becomes `("", "v1")`.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

pub fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// `pods` for the core group, `deployments.apps` for the others, as errors name a resource.
pub fn qualified_resource(group: &str, resource: &str) -> String {
    if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") }
}

/// Kubernetes' order of versions: v2 before v1 before v1beta2 before v1alpha1, then anything else by name.
pub fn version_priority(version: &str) -> (u8, u64, u64) {
    fn parse(version: &str) -> Option<(u8, u64, u64)> {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let (stage, minor) = match &rest[digits..] {
            "" => (3, ""),
            tail if tail.starts_with("beta") => (2, &tail[4..]),
            tail if tail.starts_with("alpha") => (1, &tail[5..]),
            _ => return None,
        };
        let minor = if stage == 3 { 0 } else { minor.parse().ok()? };
        Some((stage, major, minor))
    }
    parse(version).unwrap_or((0, 0, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stable_and_newest_version_comes_first() {
        let mut versions = vec!["foo1", "v1alpha1", "v11beta2", "v1", "v10", "v3beta1", "v11alpha2"];
        versions.sort_by_key(|v| std::cmp::Reverse(version_priority(v)));
        assert_eq!(versions, ["v10", "v1", "v11beta2", "v3beta1", "v11alpha2", "v1alpha1", "foo1"]);
    }
}
