//! A Pod's volumes: each has a name of its own and exactly one source.

use crate::resources::rules::items;
use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::collections::BTreeSet;

/// Checks all of them; answers their names.
pub fn check<'a>(spec: &'a Value, path: &Path, errors: &mut Errors) -> BTreeSet<&'a str> {
    let mut names = BTreeSet::new();
    for (here, volume) in items(spec, path, "volumes") {
        let name = object::text(volume, &["name"]);
        if !name.is_empty() && !names.insert(name) {
            errors.push(Error::duplicate(&here.child("name"), name));
        }
        let sources =
            volume.as_object().into_iter().flatten().filter(|(key, value)| *key != "name" && !value.is_null());
        let mut sources = sources.map(|(key, _)| key);
        if sources.next().is_none() {
            errors.push(Error::required(&here, "must specify a volume type"));
        }
        errors.extend(sources.map(|key| Error::forbidden(&here.child(key), "may not specify more than 1 volume type")));
        check_source(volume, &here, errors);
    }
    names
}

fn check_source(volume: &Value, path: &Path, errors: &mut Errors) {
    let backsteps = |text: &str| text.split('/').any(|part| part == "..");
    let host = object::text(volume, &["hostPath", "path"]);
    if backsteps(host) {
        errors.push(Error::invalid(&path.child("hostPath").child("path"), host, "must not contain '..'"));
    }
    let nfs = object::text(volume, &["nfs", "path"]);
    if !nfs.is_empty() && !nfs.starts_with('/') {
        errors.push(Error::invalid(&path.child("nfs").child("path"), nfs, "must be an absolute path"));
    }
    for source in ["configMap", "secret", "downwardAPI"] {
        if let Some(inner) = volume.get(source) {
            for (here, item) in items(inner, &path.child(source), "items") {
                let target = object::text(item, &["path"]);
                if target.starts_with('/') {
                    errors.push(Error::invalid(&here.child("path"), target, "must be a relative path"));
                } else if backsteps(target) {
                    errors.push(Error::invalid(&here.child("path"), target, "must not contain '..'"));
                }
            }
        }
    }
    if let Some(size) = object::at(volume, &["emptyDir", "sizeLimit"]) {
        let here = path.child("emptyDir").child("sizeLimit");
        if size.as_str().is_some_and(|text| text.starts_with('-')) {
            errors.push(Error::forbidden(&here, "SizeLimit field must be a valid resource quantity"));
        }
    }
}

/// A part of a volume stays inside it.
pub fn check_sub_path(mount: &Value, path: &Path, errors: &mut Errors) {
    for key in ["subPath", "subPathExpr"] {
        let sub = object::text(mount, &[key]);
        if sub.starts_with('/') {
            errors.push(Error::invalid(&path.child(key), sub, "must be a relative path"));
        }
        if sub.split('/').any(|part| part == "..") {
            errors.push(Error::invalid(&path.child(key), sub, "must not contain '..'"));
        }
    }
    let (plain, expanded) = (object::text(mount, &["subPath"]), object::text(mount, &["subPathExpr"]));
    if !plain.is_empty() && !expanded.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.push(Error::invalid(&path.child("subPathExpr"), expanded, detail));
    }
}
