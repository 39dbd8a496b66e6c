//! What a person calls a kind, found among what the server has: `po`, `pods`, `Pod`, `deployments.apps`.

use super::escape;
use serde_json::Value;

/// A kind of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub group: String,
    pub version: String,
    pub kind: String,
    /// Its name in paths: `deployments`.
    pub resource: String,
    pub namespaced: bool,
}

impl Kind {
    /// Where an object of this kind is.
    pub fn path(&self, namespace: &str, name: &str) -> String {
        let top = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        let place = if self.namespaced { format!("/namespaces/{}", escape(namespace)) } else { String::new() };
        format!("{top}{place}/{}/{}", self.resource, escape(name))
    }
}

/// Looks through aggregated discovery, in the server's order: the core group first, the preferred version first.
pub(super) fn resolve(discovered: &[Value], said: &str) -> Option<Kind> {
    let said = said.to_lowercase();
    let (word, group) = match said.split_once('.') {
        Some((word, group)) => (word, Some(group)),
        None => (said.as_str(), None),
    };
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    for item in discovered.iter().flat_map(|list_of_groups| list(list_of_groups, "items")) {
        let name = item["metadata"]["name"].as_str().unwrap_or_default();
        if group.is_some_and(|group| group != name) {
            continue;
        }
        for version in list(&item, "versions") {
            let found = list(&version, "resources").into_iter().find(|resource| is_called(resource, word));
            let Some(resource) = found else { continue };
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            return Some(Kind {
                group: name.to_owned(),
                version: text(&version["version"]),
                kind: text(&resource["responseKind"]["kind"]),
                resource: text(&resource["resource"]),
                namespaced: resource["scope"] == "Namespaced",
            });
        }
    }
    None
}

fn is_called(resource: &Value, word: &str) -> bool {
    let is = |value: &Value| value.as_str().is_some_and(|name| name.to_lowercase() == word);
    is(&resource["resource"])
        || is(&resource["singularResource"])
        || is(&resource["responseKind"]["kind"])
        || resource["shortNames"].as_array().into_iter().flatten().any(is)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_kind_answers_to_all_its_names() {
        let resource = |resource: &str, singular: &str, kind: &str, short: &str| {
            json!({"resource": resource, "singularResource": singular, "scope": "Namespaced",
                "responseKind": {"kind": kind}, "shortNames": [short]})
        };
        let groups = [
            json!({"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": [
                resource("pods", "pod", "Pod", "po"), resource("events", "event", "Event", "ev")]}]}]}),
            json!({"items": [
                {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [
                    resource("deployments", "deployment", "Deployment", "deploy")]}]},
                {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "resources": [
                    resource("events", "event", "Event", "ev")]}]}]}),
        ];
        let found = |said: &str| resolve(&groups, said).map(|kind| (kind.group, kind.resource));
        let pods = Some((String::new(), "pods".to_owned()));
        for said in ["po", "pod", "pods", "Pod", "PODS"] {
            assert_eq!(found(said), pods, "{said}");
        }
        for said in ["deploy", "deployment.apps", "deployments.apps"] {
            assert_eq!(found(said), Some(("apps".into(), "deployments".into())), "{said}");
        }
        assert_eq!(found("ev").unwrap().0, "");
        assert_eq!(found("events.events.k8s.io").unwrap().0, "events.k8s.io");
        assert_eq!(found("pods.apps"), None);
        assert_eq!(found("unicorn"), None);
        let deployment = resolve(&groups, "deploy").unwrap();
        assert_eq!(deployment.path("a b", "web"), "/apis/apps/v1/namespaces/a%20b/deployments/web");
    }
    #[test]
    fn a_name_is_one_part_of_a_path_whatever_is_in_it() {
        let pods = Kind {
            group: String::new(),
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            resource: "pods".to_owned(),
            namespaced: true,
        };
        for name in ["../../secrets/key", "web/exec?command=sh", "web#x", "a%2f..", "."] {
            let path = pods.path("shop", name);
            let last = path.strip_prefix("/api/v1/namespaces/shop/pods/").unwrap_or_else(|| panic!("{path}"));
            assert!(!last.contains(['/', '?', '#']) && last != "..", "{name}: {path}");
        }
        assert!(!pods.path("../kube-system", "web").contains("/../"));
    }
}
