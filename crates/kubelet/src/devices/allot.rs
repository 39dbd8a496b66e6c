//! Which devices a container gets. No I/O.

use std::collections::BTreeSet;

/// Why a container gets no devices; the words are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}")]
    Short { resource: String, requested: usize, available: usize },
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    NoneHealthy(String),
    #[error("previously allocated devices are no longer healthy; cannot allocate unhealthy devices {0}")]
    NoLongerHealthy(String),
    #[error("pod {pod:?} container {container:?} changed request for resource {resource:?} from {had} to {wants}")]
    Changed { pod: String, container: String, resource: String, had: usize, wants: usize },
    #[error("{0}")]
    Failed(String),
}

/// All that counts for one resource of one container.
pub(super) struct Ask<'a> {
    pub(super) pod: &'a str,
    pub(super) container: &'a str,
    pub(super) resource: &'a str,
    pub(super) required: usize,
    /// What the container was given before: it has been started already, or the agent was.
    pub(super) has: Option<&'a BTreeSet<String>>,
    /// Nothing if the resource has no plugin and never had one.
    pub(super) healthy: Option<&'a BTreeSet<String>>,
    /// By whomever.
    pub(super) taken: &'a BTreeSet<String>,
    /// Of containers of the same Pod that have ended before this one starts.
    pub(super) reusable: &'a BTreeSet<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// What it has.
    Keep,
    Take(BTreeSet<String>),
    /// The plugin may say which of the free ones it likes best.
    Prefer(Preference),
}

/// Some are chosen, others are not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Preference {
    pub(super) chosen: BTreeSet<String>,
    pub(super) free: BTreeSet<String>,
    pub(super) missing: usize,
}

pub(super) fn choose(ask: &Ask<'_>) -> Result<Choice, Refused> {
    let resource = || ask.resource.to_owned();
    if let Some(has) = ask.has.filter(|has| has.len() != ask.required) {
        return Err(Refused::Changed {
            pod: ask.pod.to_owned(),
            container: ask.container.to_owned(),
            resource: resource(),
            had: has.len(),
            wants: ask.required,
        });
    }
    let healthy = ask.healthy.ok_or_else(|| Refused::Unregistered(resource()))?;
    if healthy.is_empty() {
        return Err(Refused::NoneHealthy(resource()));
    }
    if let Some(has) = ask.has {
        return if has.is_subset(healthy) { Ok(Choice::Keep) } else { Err(Refused::NoLongerHealthy(resource())) };
    }
    let chosen: BTreeSet<String> = ask.reusable.iter().take(ask.required).cloned().collect();
    let missing = ask.required - chosen.len();
    if missing == 0 {
        return Ok(Choice::Take(chosen));
    }
    let free: BTreeSet<String> = healthy.difference(ask.taken).filter(|id| !chosen.contains(*id)).cloned().collect();
    if free.len() < missing {
        return Err(Refused::Short { resource: resource(), requested: missing, available: free.len() });
    }
    Ok(Choice::Prefer(Preference { chosen, free, missing }))
}

impl Preference {
    /// The preferred ones as far as they are free, then others in their order.
    pub(super) fn complete(mut self, preferred: &BTreeSet<String>) -> BTreeSet<String> {
        let liked = self.free.intersection(preferred);
        let others = self.free.difference(preferred);
        self.chosen.extend(liked.chain(others).take(self.missing).cloned());
        self.chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &str) -> BTreeSet<String> {
        names.split_whitespace().map(str::to_owned).collect()
    }

    /// What one with `has` gets that wants `required` of `healthy` while others have `taken`.
    fn chosen(required: usize, has: Option<&str>, healthy: Option<&str>, taken: &str, reusable: &str) -> String {
        let (has, healthy) = (has.map(set), healthy.map(set));
        let ask = Ask {
            pod: "7f0c",
            container: "c",
            resource: "example.com/lamp",
            required,
            has: has.as_ref(),
            healthy: healthy.as_ref(),
            taken: &set(taken),
            reusable: &set(reusable),
        };
        let told = |devices: BTreeSet<String>| devices.into_iter().collect::<Vec<_>>().join(" ");
        match choose(&ask) {
            Ok(Choice::Keep) => "keep".to_owned(),
            Ok(Choice::Take(devices)) => told(devices),
            Ok(Choice::Prefer(preference)) => format!("any: {}", told(preference.complete(&BTreeSet::new()))),
            Err(refused) => refused.to_string(),
        }
    }

    #[test]
    fn a_container_gets_free_and_healthy_devices_and_keeps_what_it_has() {
        let short = |requested, available| {
            format!(
                "requested number of devices unavailable for example.com/lamp. \
                 Requested: {requested}, Available: {available}"
            )
        };
        for (required, has, healthy, taken, reusable, expected) in [
            (1, None, Some("a b c"), "a", "", "any: b".to_owned()),
            (2, None, Some("a b c"), "a", "", "any: b c".to_owned()),
            (3, None, Some("a b c"), "a", "", short(3, 2)),
            (1, None, Some("a"), "a b", "", short(1, 0)),
            // Of an init container, before anything else.
            (1, None, Some("a b"), "b", "b", "b".to_owned()),
            (2, None, Some("a b c"), "c", "c", "any: a c".to_owned()),
            (3, None, Some("a b"), "b", "b", short(2, 1)),
            (1, Some("b"), Some("a b"), "a b", "", "keep".to_owned()),
            (
                1,
                Some("b"),
                Some("a"),
                "b",
                "",
                "previously allocated devices are no longer healthy; cannot allocate unhealthy devices example.com/lamp"
                    .to_owned(),
            ),
            (1, None, None, "", "", "cannot allocate unregistered device example.com/lamp".to_owned()),
            (
                1,
                Some("b"),
                Some(""),
                "b",
                "",
                "no healthy devices present; cannot allocate unhealthy devices example.com/lamp".to_owned(),
            ),
            (
                2,
                Some("b"),
                Some("a b"),
                "b",
                "",
                "pod \"7f0c\" container \"c\" changed request for resource \"example.com/lamp\" from 1 to 2".to_owned(),
            ),
        ] {
            assert_eq!(chosen(required, has, healthy, taken, reusable), expected);
        }
    }

    #[test]
    fn a_plugin_prefers_among_the_free_ones_only() {
        for (preferred, expected) in
            [("c", "a c x"), ("c d", "c d x"), ("taken", "a c x"), ("", "a c x"), ("x d", "a d x")]
        {
            let preference = Preference { chosen: set("x"), free: set("a c d"), missing: 2 };
            assert_eq!(preference.complete(&set(preferred)), set(expected), "{preferred}");
        }
    }
}
