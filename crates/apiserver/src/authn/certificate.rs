//! A client certificate's subject as a user: the common name is the user, each organization a group.

use super::User;
use std::fmt::Write;
use x509_parser::prelude::*;

/// The user of a certificate that the TLS layer has verified. One without a name identifies nobody.
pub fn user(der: &[u8]) -> Option<User> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups: Vec<&str> = subject.iter_organization().filter_map(|o| o.as_str().ok()).collect();
    let mut user = User::new(name, &groups);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, der);
    let id = digest.as_ref().iter().fold("X509SHA256=".to_owned(), |mut id, byte| {
        // Writing to a string cannot fail.
        let _ = write!(id, "{byte:02x}");
        id
    });
    user.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), vec![id]);
    Some(user)
}

/// The last second of a certificate, since 1970.
pub fn ends(der: &[u8]) -> i64 {
    // What cannot be read identifies nobody, so its end never matters.
    X509Certificate::from_der(der).map_or(i64::MAX, |(_, certificate)| certificate.validity().not_after.timestamp())
}

pub fn common_name(der: &[u8]) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    certificate.subject().iter_common_name().next()?.as_str().ok().map(str::to_owned)
}
