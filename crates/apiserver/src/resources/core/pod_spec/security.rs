//! What a Pod's security contexts may say: sysctls by their names, and a `/proc` that is not masked only without the node's users.

use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

const LONGEST_SYSCTL: usize = 253;
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// Begins the names of sysctls that are of the network's namespace, and of the one of inter-process communication.
const OF_NETWORK: [&str; 1] = ["net."];
const OF_IPC: [&str; 4] = ["kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue."];

pub fn check(spec: &Value, path: &Path, errors: &mut Errors) {
    let here = path.child("securityContext");
    let context = spec.get("securityContext").unwrap_or(&Value::Null);
    let mut names = BTreeSet::new();
    for (here, sysctl) in items(context, &here, "sysctls") {
        let (here, name) = (here.child("name"), object::text(sysctl, &["name"]));
        if name.is_empty() {
            errors.push(Error::required(&here, ""));
        } else if !is_sysctl(name) {
            let why = format!("must have at most {LONGEST_SYSCTL} characters and match regex {SYSCTL}");
            errors.push(Error::invalid(&here, name, why));
        } else if !names.insert(name) {
            errors.push(Error::duplicate(&here, name));
        }
        let dotted = name.replace('/', ".");
        let of = |prefixes: &[&str]| prefixes.iter().any(|prefix| dotted.starts_with(prefix));
        if object::flag(spec, &["hostNetwork"]) && of(&OF_NETWORK) {
            errors.push(Error::invalid(&here, name, "may not be specified when 'hostNetwork' is true"));
        }
        if object::flag(spec, &["hostIPC"]) && of(&OF_IPC) {
            errors.push(Error::invalid(&here, name, "may not be specified when 'hostIPC' is true"));
        }
    }
    let own_users = spec.get("hostUsers") == Some(&Value::Bool(false));
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for (here, container) in items(spec, path, kind) {
            let mount = object::text(container, &["securityContext", "procMount"]);
            let here = here.child("securityContext").child("procMount");
            match mount {
                "" | "Default" => {}
                "Unmasked" if own_users => {}
                "Unmasked" => errors.push(Error::invalid(&here, mount, "`hostUsers` must be false to use `Unmasked`")),
                other => errors.push(Error::not_supported(&here, other, &["Default", "Unmasked"])),
            }
        }
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_end =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit());
    let is_part = |part: &str| {
        let known = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_".contains(letter);
        part.chars().all(known) && is_end(part.chars().next()) && is_end(part.chars().next_back())
    };
    name.len() <= LONGEST_SYSCTL && name.split(['.', '/']).all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(spec: &Value) -> Vec<String> {
        let mut errors = Errors::new();
        check(spec, &Path::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_sysctl_that_cannot_be_one_is_refused_by_its_name() {
        let sysctls = |names: &[&str]| {
            let list: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "1"})).collect();
            json!({"securityContext": {"sysctls": list}})
        };
        let found =
            problems(&sysctls(&["foo-", "kernel.shmmax", "safe-and-unsafe", "bar..", "net/ipv4/conf/eno2.100"]));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("spec.securityContext.sysctls[0].name: Invalid value: \"foo-\""), "{found:?}");
        assert!(found[1].starts_with("spec.securityContext.sysctls[3].name: Invalid value: \"bar..\""), "{found:?}");
        assert_eq!(problems(&sysctls(&["", "a.b", "a.b"])).len(), 2);
        let mut shared = sysctls(&["net.ipv4.tcp_syncookies", "kernel.shm_rmid_forced"]);
        assert!(problems(&shared).is_empty());
        shared["hostNetwork"] = json!(true);
        shared["hostIPC"] = json!(true);
        assert_eq!(problems(&shared).len(), 2);
    }

    #[test]
    fn an_unmasked_proc_needs_users_of_its_own() {
        let pod = |mount: &str| json!({"containers": [{"name": "c", "securityContext": {"procMount": mount}}]});
        assert!(problems(&pod("Default")).is_empty());
        assert!(problems(&pod("Unmasked"))[0].contains("`hostUsers` must be false"));
        assert!(problems(&pod("Other"))[0].contains("Unsupported value"));
        let mut own = pod("Unmasked");
        own["hostUsers"] = json!(false);
        assert!(problems(&own).is_empty());
    }
}
