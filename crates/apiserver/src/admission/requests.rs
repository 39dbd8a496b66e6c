//! A request for a certificate says who asks; not who it says, but who it is.

use crate::authn::User;
use pintle_meta::object;
use serde_json::Value;

pub(super) fn sign(user: &User, request: &mut Value) {
    let spec = object::map_at(request, "spec");
    for key in ["username", "uid", "groups", "extra"] {
        spec.remove(key);
    }
    spec.insert("username".into(), user.name.clone().into());
    if !user.groups.is_empty() {
        spec.insert("groups".into(), user.groups.clone().into());
    }
    if !user.uid.is_empty() {
        spec.insert("uid".into(), user.uid.clone().into());
    }
}
