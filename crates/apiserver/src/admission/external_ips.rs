//! DenyServiceExternalIPs, off unless asked for: no Service takes up an external IP, with which it could draw in others' packets.

use super::{Operation, Plugin, Review};
use futures::future::BoxFuture;
use pintle_meta::{Status, object};
use serde_json::Value;

pub struct ExternalIps;

impl Plugin for ExternalIps {
    fn concerns(&self, review: &Review<'_>) -> bool {
        matches!(review.operation, Operation::Create | Operation::Update) && review.is_of("", "services", "")
    }

    fn validate<'a>(&'a self, review: &'a Review<'a>, service: Option<&'a Value>) -> BoxFuture<'a, Result<(), Status>> {
        let taken_up = service.is_some_and(|service| takes_up(service, review.old));
        let refused = || {
            let name = service.map_or("", object::name);
            Err(review.forbidden(name, "Use of external IPs is denied by admission control"))
        };
        Box::pin(std::future::ready(if taken_up { refused() } else { Ok(()) }))
    }
}

/// Has the Service an external IP that it had not before?
fn takes_up(service: &Value, old: Option<&Value>) -> bool {
    let had = old.map_or(&[][..], |old| object::list(old, &["spec", "externalIPs"]));
    object::list(service, &["spec", "externalIPs"]).iter().any(|ip| !had.contains(ip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_service_keeps_the_external_ips_it_had_and_gets_no_others() {
        let with = |ips: &[&str]| json!({"spec": {"externalIPs": ips}});
        assert!(!takes_up(&with(&[]), None) && takes_up(&with(&["1.1.1.1"]), None));
        let old = with(&["1.1.1.1", "2.2.2.2"]);
        assert!(!takes_up(&with(&["2.2.2.2"]), Some(&old)));
        assert!(takes_up(&with(&["1.1.1.1", "3.3.3.3"]), Some(&old)));
    }
}
