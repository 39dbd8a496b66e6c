//! Which requests a webhook or a policy means.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;

pub fn check(rule: &Value, path: &Path, errors: &mut Errors) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    alone(rule, path, ("operations", "operations"), errors);
    for (index, operation) in object::list(rule, &["operations"]).iter().filter_map(Value::as_str).enumerate() {
        if !OPERATIONS.contains(&operation) {
            errors.push(Error::not_supported(&path.child("operations").index(index), operation, &OPERATIONS));
        }
    }
    alone(rule, path, ("apiGroups", "API groups"), errors);
    alone(rule, path, ("apiVersions", "API versions"), errors);
    for (index, version) in object::list(rule, &["apiVersions"]).iter().enumerate() {
        if version == "" {
            errors.push(Error::required(&path.child("apiVersions").index(index), ""));
        }
    }
    check_resources(object::list(rule, &["resources"]), &path.child("resources"), errors);
}

/// A star stands for all, so nothing stands beside it.
fn alone(rule: &Value, path: &Path, (field, what): (&str, &str), errors: &mut Errors) {
    let words = object::list(rule, &[field]);
    if words.len() > 1 && words.iter().any(|word| word == "*") {
        let detail = format!("if '*' is present, must not specify other {what}");
        errors.push(Error::invalid(&path.child(field), words.to_vec(), detail));
    }
}

fn check_resources(resources: &[Value], path: &Path, errors: &mut Errors) {
    let names: Vec<&str> = resources.iter().map(|name| name.as_str().unwrap_or_default()).collect();
    let (mut all_of, mut of_all): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for (index, name) in names.iter().enumerate() {
        let here = path.index(index);
        if name.is_empty() {
            errors.push(Error::required(&here, ""));
        }
        let Some((resource, subresource)) = name.split_once('/') else { continue };
        if all_of.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {name}");
            errors.push(Error::invalid(&here, *name, detail));
        }
        if of_all.contains(&subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {name}");
            errors.push(Error::invalid(&here, *name, detail));
        }
        if subresource == "*" {
            all_of.push(resource);
        }
        if resource == "*" {
            of_all.push(subresource);
        }
    }
    if names.len() > 1 && names.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
    // The last one without a subresource decides, as it does in Kubernetes.
    let last = names.iter().rfind(|name| !name.is_empty() && !name.contains('/'));
    if names.contains(&"*") && last.is_some_and(|last| *last != "*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(Error::invalid(path, resources.to_vec(), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_stands_alone() {
        let found = |rule: Value| {
            let mut errors = Errors::new();
            check(&rule, &Path::root(), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let rule = |operations: Value, resources: Value| json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": operations, "resources": resources});
        assert!(found(rule(json!(["CREATE", "UPDATE"]), json!(["pods", "pods/status"]))).is_empty());
        assert!(found(rule(json!(["*"]), json!(["*", "*/*"]))).len() == 1);
        let many = found(rule(json!(["*", "CREATE"]), json!(["*", "pods"])));
        assert!(many[0].contains("must not specify other operations"), "{many:?}");
        assert!(many[1].contains("must not specify other resources without subresources"), "{many:?}");
        assert!(found(rule(json!(["READ"]), json!(["pods/*", "pods/status"]))).len() == 2);
    }
}
