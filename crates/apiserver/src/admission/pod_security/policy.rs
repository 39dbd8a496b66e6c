//! What the labels of a namespace ask of its Pods: how strict, by the rules of which version, and what follows.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::fmt;

pub(super) const PREFIX: &str = "pod-security.kubernetes.io/";

/// From lenient to strict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// Of Kubernetes: `v1.MINOR`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Version {
    Minor(u32),
    Latest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Standard {
    pub(super) level: Level,
    pub(super) version: Version,
}

/// Which standard Pods must meet, which is noted when they do not, and which is warned of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::admission) struct Policy {
    pub(in crate::admission) enforce: Standard,
    pub(in crate::admission) audit: Standard,
    pub(in crate::admission) warn: Standard,
}

const ANYTHING: Standard = Standard { level: Level::Privileged, version: Version::Latest };

/// Nothing is asked.
impl Default for Policy {
    fn default() -> Self {
        Policy { enforce: ANYTHING, audit: ANYTHING, warn: ANYTHING }
    }
}

impl Policy {
    /// Does any mode ask for anything?
    pub(super) fn asks_nothing(&self) -> bool {
        [self.enforce, self.audit, self.warn].iter().all(|standard| standard.level == Level::Privileged)
    }

    /// The modes that labels of the namespace set to more than nothing, as they are shown.
    pub(super) fn labelled(&self, namespace: &Value) -> String {
        let label = |name: &str| object::at(namespace, &["metadata", "labels", &format!("{PREFIX}{name}")]).is_some();
        let modes = [("enforce", self.enforce), ("audit", self.audit), ("warn", self.warn)].into_iter();
        let set = modes.filter(|(mode, standard)| {
            standard.level != Level::Privileged && (label(mode) || label(&format!("{mode}-version")))
        });
        set.map(|(mode, standard)| format!("{mode}={standard}")).collect::<Vec<_>>().join(", ")
    }

    /// There is always a policy: what cannot be read is taken for the strictest where it is enforced.
    pub(super) fn of(namespace: &Value, defaults: &Policy) -> (Policy, Errors) {
        let mut errors = Errors::new();
        let mut policy = *defaults;
        let label = |name: &str| object::at(namespace, &["metadata", "labels", &format!("{PREFIX}{name}")]);
        let mut readable_enforce = false;
        for (mode, standard) in
            [("enforce", &mut policy.enforce), ("audit", &mut policy.audit), ("warn", &mut policy.warn)]
        {
            if let Some(text) = label(mode).and_then(Value::as_str) {
                let level = Level::parse(text);
                readable_enforce |= mode == "enforce" && level.is_some();
                // A mode that only speaks says nothing rather than something wrong.
                let otherwise = if mode == "enforce" { Level::Restricted } else { Level::Privileged };
                standard.level = level.unwrap_or(otherwise);
                if level.is_none() {
                    errors.push(invalid(mode, text, "must be one of privileged, baseline, restricted"));
                }
            }
            let name = format!("{mode}-version");
            if let Some(text) = label(&name).and_then(Value::as_str) {
                let version = Version::parse(text);
                standard.version = version.unwrap_or(Version::Latest);
                if version.is_none() {
                    errors.push(invalid(&name, text, "must be \"latest\" or \"v1.x\""));
                }
            }
        }
        // What is enforced on Pods is warned of where their controllers are written.
        if label("warn").is_none() && readable_enforce && policy.enforce.level > policy.warn.level {
            policy.warn.level = policy.enforce.level;
            if label("warn-version").is_none() {
                policy.warn.version = policy.enforce.version;
            }
        }
        (policy, errors)
    }
}

fn invalid(label: &str, value: &str, detail: &str) -> Error {
    let path = Path::new("metadata").child("labels").key(&format!("{PREFIX}{label}"));
    Error::invalid(&path, value, detail)
}

impl Standard {
    /// As a configuration says it.
    pub(super) fn parse(level: &str, version: &str, at: (&Path, &Path), errors: &mut Errors) -> Self {
        let parsed = (Level::parse(level), Version::parse(version));
        if parsed.0.is_none() {
            errors.push(Error::invalid(at.0, level, "must be one of privileged, baseline, restricted"));
        }
        if parsed.1.is_none() {
            errors.push(Error::invalid(at.1, version, "must be \"latest\" or \"v1.x\""));
        }
        Standard { level: parsed.0.unwrap_or(Level::Restricted), version: parsed.1.unwrap_or(Version::Latest) }
    }
}

impl Level {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "privileged" => Some(Level::Privileged),
            "baseline" => Some(Level::Baseline),
            "restricted" => Some(Level::Restricted),
            _ => None,
        }
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        if text == "latest" {
            return Some(Version::Latest);
        }
        let minor = text.strip_prefix("v1.")?;
        let canonical = minor == "0" || !minor.starts_with(['0', '+']);
        minor.parse().ok().filter(|_| canonical).map(Version::Minor)
    }

    /// Are the rules that came with this minor version in force?
    pub(super) fn has(self, minor: u32) -> bool {
        match self {
            Version::Minor(own) => own >= minor,
            Version::Latest => true,
        }
    }
}

/// `restricted:latest`
impl fmt::Display for Standard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        match self.version {
            Version::Latest => write!(f, "{level}:latest"),
            Version::Minor(minor) => write!(f, "{level}:v1.{minor}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn policy(labels: &[(&str, &str)]) -> (Policy, Vec<String>) {
        let labels: Map<String, Value> =
            labels.iter().map(|(name, value)| (format!("{PREFIX}{name}"), json!(value))).collect();
        let (policy, errors) = Policy::of(&json!({"metadata": {"labels": labels}}), &Policy::default());
        (policy, errors.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_enforced_is_warned_of_too() {
        let (policy, errors) = policy(&[("enforce", "baseline"), ("enforce-version", "v1.30")]);
        assert_eq!(
            (policy.warn.to_string(), policy.audit.to_string()),
            ("baseline:v1.30".into(), "privileged:latest".into())
        );
        assert_eq!(errors, [""; 0]);
    }

    #[test]
    fn labels_count_before_what_is_configured() {
        let of = |text: &str| {
            let path = Path::root();
            Standard::parse(text, "latest", (&path, &path), &mut Errors::new())
        };
        let defaults = Policy { enforce: of("baseline"), audit: of("restricted"), warn: of("privileged") };
        let shown = |labels: Value| {
            let (policy, _) = Policy::of(&json!({"metadata": {"labels": labels}}), &defaults);
            [policy.enforce, policy.audit, policy.warn].map(|standard| standard.to_string())
        };
        assert_eq!(shown(json!({})), ["baseline:latest", "restricted:latest", "privileged:latest"]);
        let relaxed = json!({"pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit-version": "v1.30"});
        assert_eq!(shown(relaxed), ["privileged:latest", "restricted:v1.30", "privileged:latest"]);
    }

    #[test]
    fn labels_that_cannot_be_read_are_as_strict_as_can_be() {
        let (unreadable, errors) = policy(&[("enforce", "strict"), ("warn", "strict"), ("enforce-version", "v9")]);
        assert_eq!(
            (unreadable.enforce.to_string(), unreadable.warn.level),
            ("restricted:latest".into(), Level::Privileged)
        );
        assert_eq!(
            errors,
            [
                "metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
                "metadata.labels[pod-security.kubernetes.io/enforce-version]: Invalid value: \"v9\": must be \"latest\" or \"v1.x\"",
                "metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"strict\": must be one of privileged, baseline, restricted",
            ]
        );
        for (text, read) in
            [("v1.0", true), ("v1.36", true), ("latest", true), ("v1.01", false), ("v1.", false), ("1.2", false)]
        {
            assert_eq!(Version::parse(text).is_some(), read, "{text}");
        }
    }
}
