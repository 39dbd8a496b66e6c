//! `pintle credential`: an exec credential plugin that makes client certificates which expire soon.
//!
//! kubectl and every other client of client-go run it when they have no credential or theirs has expired, and read an ExecCredential
//! from its output. It signs with the key of the cluster's authority in DIR/pki, so a user who cannot read that directory gets no
//! credential, and a copied kubeconfig is worth nothing elsewhere.

use crate::data_dir;
use crate::say::say;
use jiff::Timestamp;
use pintle_apiserver::authn::MASTERS;
use pintle_apiserver::pki::{Identity, Pki, PkiError};
use pintle_meta::clock::rfc3339;
use pintle_meta::{Clock, duration, object};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The user of the administrator's kubeconfig.
pub(crate) const ADMINISTRATOR: &str = "kubernetes-admin";

const DEFAULT_TTL: &str = "1h";
const MAX_TTL: Duration = Duration::from_secs(24 * 60 * 60);

/// Clients ask for the next credential this much before the last one ends, so that no request is under way with one that has
/// ended. A tenth of the lifetime if that is less.
const MAX_MARGIN: Duration = Duration::from_secs(60);

/// In this variable a client says which version of ExecCredential it reads.
const ASKED: &str = "KUBERNETES_EXEC_INFO";
const VERSIONS: [&str; 2] = ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Where the cluster's keys and certificates are [default: DIR/pki].
    #[arg(long, value_name = "DIR")]
    pki: Option<PathBuf>,
    /// Where the cluster is kept [default: $XDG_DATA_HOME/pintle or ~/.local/share/pintle].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// The name of the user.
    #[arg(long, value_name = "NAME", default_value = ADMINISTRATOR)]
    user: String,
    /// The group of the user. What others than system:masters may do is for roles to say.
    #[arg(long, value_name = "GROUP", default_value = MASTERS)]
    group: String,
    /// For how long the certificate counts, at most 24h.
    #[arg(long, value_name = "TIME", default_value = DEFAULT_TTL, value_parser = ttl)]
    ttl: Duration,
}

/// Why there is no credential, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("no data directory: set --pki, --data-dir, or HOME")]
    NoDirectory,
    #[error("{0}; this works for the user who started the cluster, on its machine, with --pki naming its directory")]
    Pki(#[from] PkiError),
    #[error("{ASKED} is not an ExecCredential: {0}")]
    Unreadable(String),
    #[error("{ASKED} asks for {asked:?}; this plugin answers {}", VERSIONS.join(" and "))]
    Version { asked: String },
}

/// `30s`, `1h`: a lifetime that a credential can have.
pub(crate) fn ttl(text: &str) -> Result<Duration, String> {
    let seconds = duration::seconds(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let ttl = seconds.ok_or_else(|| "give a time, such as 10m or 1h".to_owned())?;
    // Certificates know whole seconds.
    match (Duration::from_secs(1)..=MAX_TTL).contains(&ttl) {
        true => Ok(ttl),
        false => Err("give a time between 1s and 24h".to_owned()),
    }
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let version = version(std::env::var(ASKED).ok().as_deref())?;
    let below = || Some(data_dir::resolve(flags.data_dir.as_ref())?.join("pki"));
    let directory = flags.pki.clone().or_else(below).ok_or(Failure::NoDirectory)?;
    let (pki, now) = (Pki::read(&directory)?, Clock::system().now());
    let identity = pki.short_lived_client(&flags.user, &flags.group, now, flags.ttl)?;
    say!("{}", credential(version, &identity, now, flags.ttl));
    Ok(())
}

/// The version that the client reads. Who runs the command by hand says nothing.
fn version(asked: Option<&str>) -> Result<&'static str, Failure> {
    let Some(asked) = asked.filter(|asked| !asked.is_empty()) else { return Ok(VERSIONS[0]) };
    let asked: Value = serde_json::from_str(asked).map_err(|error| Failure::Unreadable(error.to_string()))?;
    let version = object::text(&asked, &["apiVersion"]);
    let known = VERSIONS.into_iter().find(|known| *known == version);
    known.ok_or_else(|| Failure::Version { asked: version.to_owned() })
}

fn credential(version: &str, identity: &Identity, now: Timestamp, ttl: Duration) -> Value {
    // To whole seconds, downwards, as it is written.
    let end = now + ttl - (ttl / 10).min(MAX_MARGIN);
    json!({
        "apiVersion": version,
        "kind": "ExecCredential",
        "status": {
            "expirationTimestamp": rfc3339(end),
            "clientCertificateData": identity.certificate_pem,
            "clientKeyData": identity.key_pem,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_answered_in_the_version_it_reads_and_others_are_refused() {
        let asked = |version: &str| json!({"apiVersion": version, "kind": "ExecCredential", "spec": {}}).to_string();
        assert_eq!(version(None).unwrap(), VERSIONS[0]);
        for known in VERSIONS {
            assert_eq!(version(Some(&asked(known))).unwrap(), known);
        }
        let refused = version(Some(&asked("client.authentication.k8s.io/v1alpha1"))).unwrap_err().to_string();
        assert!(refused.contains("v1alpha1") && refused.contains(VERSIONS[0]), "{refused}");
        assert!(matches!(version(Some("nonsense")), Err(Failure::Unreadable(_))));
    }

    #[test]
    fn the_next_credential_is_asked_for_before_the_last_one_ends() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let identity = Identity { certificate_pem: "c".to_owned(), key_pem: "k".to_owned() };
        let end = |ttl: u64| {
            let answer = credential(VERSIONS[0], &identity, now, Duration::from_secs(ttl));
            object::text(&answer, &["status", "expirationTimestamp"]).to_owned()
        };
        assert_eq!(end(3600), "2026-01-01T00:59:00Z");
        assert_eq!(end(100), "2026-01-01T00:01:30Z");
    }

    #[test]
    fn a_lifetime_that_no_certificate_can_have_is_refused() {
        assert_eq!(ttl("90s"), Ok(Duration::from_secs(90)));
        for refused in ["0", "0.5s", "25h", "-1h", "soon", ""] {
            assert!(ttl(refused).is_err(), "{refused}");
        }
    }
}
