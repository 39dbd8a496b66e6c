//! A client certificate's subject as a user: the common name is the user, each organization a group.

use super::User;
use x509_parser::prelude::*;

/// The TLS layer has verified the chain; a certificate without a name identifies nobody.
pub fn user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|o| o.as_str().ok()).collect();
    Some(User::new(name, &groups))
}
