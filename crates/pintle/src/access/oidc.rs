//! Flags about one issuer of OpenID Connect tokens; a file names several.

use super::{AccessError, read};
use pintle_apiserver::authn::oidc::claims::{Mappings, Prefixed};
use pintle_apiserver::authn::oidc::{ALGORITHMS, Issuer};
use std::path::PathBuf;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(super) struct OidcFlags {
    /// The issuer of OpenID Connect tokens whose users may come in. For more than one, see --authentication-config.
    #[arg(long, value_name = "URL")]
    oidc_issuer_url: Option<String>,
    /// The audiences that its tokens must have.
    #[arg(long, value_name = "ID")]
    oidc_client_id: Option<String>,
    /// The claim that is the user's name [default: sub].
    #[arg(long, value_name = "CLAIM")]
    oidc_username_claim: Option<String>,
    /// What is put before the user's name; - for nothing [default: the issuer's URL and #, except before email].
    #[arg(long, value_name = "PREFIX", allow_hyphen_values = true)]
    oidc_username_prefix: Option<String>,
    /// The claim that names the user's groups.
    #[arg(long, value_name = "CLAIM")]
    oidc_groups_claim: Option<String>,
    /// What is put before the name of each group.
    #[arg(long, value_name = "PREFIX")]
    oidc_groups_prefix: Option<String>,
    /// A claim that must have this value; may be repeated.
    #[arg(long, value_name = "CLAIM=VALUE")]
    oidc_required_claim: Vec<String>,
    /// The authority of the issuer's certificate [default: those of the machine].
    #[arg(long, value_name = "FILE")]
    oidc_ca_file: Option<PathBuf>,
    /// With which algorithms its tokens may be signed [default: RS256].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    oidc_signing_algs: Vec<String>,
}

const URL: &str = "--oidc-issuer-url";

impl OidcFlags {
    /// The issuer, if one is named. `disallowed` are those of service account tokens.
    pub(super) fn load(&self, disallowed: &[String]) -> Result<Option<Issuer>, AccessError> {
        let refused = |flag, why: &str| AccessError::Flag { flag, why: why.to_owned() };
        let (url, client) = match (&self.oidc_issuer_url, &self.oidc_client_id) {
            (Some(url), Some(client)) => (url.clone(), client.clone()),
            (Some(_), None) => return Err(refused(URL, "needs --oidc-client-id too")),
            (None, _) if *self != OidcFlags::default() => {
                return Err(refused("--oidc-*", "these flags need --oidc-issuer-url and --oidc-client-id"));
            }
            (None, _) => return Ok(None),
        };
        if !url.starts_with("https://") {
            return Err(refused(URL, "the scheme must be https"));
        }
        if disallowed.contains(&url) {
            return Err(refused(URL, "is the issuer of service account tokens"));
        }
        let claim = self.oidc_username_claim.clone().unwrap_or_else(|| "sub".to_owned());
        let prefix = match self.oidc_username_prefix.as_deref() {
            Some("-") => String::new(),
            Some(prefix) if !prefix.is_empty() => prefix.to_owned(),
            _ if claim == "email" => String::new(),
            _ => format!("{url}#"),
        };
        let required = self.oidc_required_claim.iter().map(|pair| {
            let pair = pair.split_once('=').filter(|(claim, _)| !claim.is_empty());
            let pair = pair.map(|(claim, value)| (claim.to_owned(), value.to_owned()));
            pair.ok_or_else(|| refused("--oidc-required-claim", "give CLAIM=VALUE"))
        });
        let groups = self.oidc_groups_claim.clone();
        Ok(Some(Issuer {
            url,
            discovery_url: None,
            audiences: vec![client],
            ca_pem: self.oidc_ca_file.as_ref().map_or(Ok(String::new()), |path| read("--oidc-ca-file", path))?,
            algorithms: self.algorithms()?,
            mappings: Mappings {
                username: Prefixed { claim, prefix },
                groups: groups
                    .map(|claim| Prefixed { claim, prefix: self.oidc_groups_prefix.clone().unwrap_or_default() }),
                uid: None,
                required: required.collect::<Result<_, _>>()?,
            },
        }))
    }

    fn algorithms(&self) -> Result<Vec<pintle_apiserver::authn::oidc::Algorithm>, AccessError> {
        let of = |name: &str| ALGORITHMS.iter().find(|(known, _)| *known == name).map(|(_, algorithm)| *algorithm);
        let names = if self.oidc_signing_algs.is_empty() { &["RS256".to_owned()][..] } else { &self.oidc_signing_algs };
        let unknown = |name: &str| {
            let known: Vec<&str> = ALGORITHMS.iter().map(|(name, _)| *name).collect();
            let why = format!("{name:?} is not supported; give some of {}", known.join(", "));
            AccessError::Flag { flag: "--oidc-signing-algs", why }
        };
        names.iter().map(|name| of(name).ok_or_else(|| unknown(name))).collect()
    }
}
