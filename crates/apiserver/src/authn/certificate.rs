//! A client certificate's subject as a user: the common name is the user, each organization a group.

use super::User;
use crate::request::Peer;
use std::sync::Arc;
use x509_parser::prelude::*;

/// Who is at the other end of a connection: read once, when it begins.
pub fn peer(der: Option<&[u8]>) -> Peer {
    der.and_then(user).map_or(Peer::Unknown, |user| Peer::Certificate(Arc::new(user)))
}

/// The TLS layer has verified the chain; a certificate without a name identifies nobody.
fn user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|o| o.as_str().ok()).collect();
    Some(User::new(name, &groups))
}
