//! The external addresses of a Service: none that every machine has for itself.

use pintle_meta::field::{Error, Errors, Path};
use pintle_meta::object;
use serde_json::Value;
use std::net::IpAddr;

pub fn check(service: &Value, spec: &Path, errors: &mut Errors) {
    for (index, address) in object::list(service, &["spec", "externalIPs"]).iter().enumerate() {
        let text = address.as_str().unwrap_or_default();
        let path = spec.child("externalIPs").index(index);
        match text.parse::<IpAddr>() {
            Err(_) => errors.push(Error::invalid(
                &path,
                text,
                "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
            )),
            Ok(address) => {
                errors.extend(special(address, text).into_iter().map(|why| Error::invalid(&path, text, why)));
            }
        }
    }
}

fn special(address: IpAddr, text: &str) -> Option<String> {
    let (link_local, multicast) = match address.to_canonical() {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => (v6.is_unicast_link_local(), v6.segments()[0] & 0xff0f == 0xff02),
    };
    let address = address.to_canonical();
    if address.is_unspecified() {
        return Some(format!("may not be unspecified ({text})"));
    }
    let why = match (address.is_loopback(), link_local, multicast) {
        (true, ..) => "may not be in the loopback range (127.0.0.0/8, ::1/128)",
        (_, true, _) => "may not be in the link-local range (169.254.0.0/16, fe80::/10)",
        (_, _, true) => "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)",
        _ => return None,
    };
    Some(why.to_owned())
}
