//! Who may ask the API server, and what they may do: flags with the names that Kubernetes' API server has, checked as a whole
//! before anything starts.

mod accounts;
mod authorization;
mod oidc;
mod proxy;

use accounts::AccountFlags;
use authorization::AuthorizationFlags;
use oidc::OidcFlags;
use pintle_apiserver::access::{Access, ConfigError};
use pintle_apiserver::authn::config::{self, Anonymous, Authentication, TokenWebhook};
use pintle_apiserver::authn::static_tokens::{StaticTokens, TokenFileError};
use pintle_apiserver::outbound::{Endpoint, EndpointError};
use pintle_meta::duration;
use proxy::ProxyFlags;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(crate) struct AccessFlags {
    /// Tokens and their users, one per line: TOKEN,USER,UID,"GROUP1,GROUP2".
    #[arg(long, value_name = "FILE")]
    token_auth_file: Option<PathBuf>,
    /// Whether requests that show nothing are anonymous [default: true]. They are refused otherwise.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    anonymous_auth: Option<bool>,
    /// An AuthenticationConfiguration: issuers of OpenID Connect tokens, and the paths that are open to anonymous requests
    /// (docs/authentication.md). Read once, at the start.
    #[arg(long, value_name = "FILE")]
    authentication_config: Option<PathBuf>,
    /// A program that says whose a token is, asked with a TokenReview: its address and credentials as a kubeconfig.
    #[arg(long, value_name = "FILE")]
    authentication_token_webhook_config_file: Option<PathBuf>,
    /// For how long its answers count [default: 2m].
    #[arg(long, value_name = "DURATION", value_parser = go_duration)]
    authentication_token_webhook_cache_ttl: Option<Duration>,
    /// The version of the TokenReview that it is sent [default: v1beta1].
    #[arg(long, value_name = "VERSION", value_parser = ["v1", "v1beta1"])]
    authentication_token_webhook_version: Option<String>,
    #[command(flatten)]
    oidc: OidcFlags,
    #[command(flatten)]
    proxy: ProxyFlags,
    #[command(flatten)]
    accounts: AccountFlags,
    #[command(flatten)]
    authorization: AuthorizationFlags,
}

/// Why the flags, or a file that they name, cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AccessError {
    #[error("{flag}: {source}")]
    Config { flag: &'static str, source: ConfigError },
    #[error("{flag}: {source}")]
    Endpoint { flag: &'static str, source: EndpointError },
    #[error("--token-auth-file {}: {source}", path.display())]
    Tokens { path: PathBuf, source: TokenFileError },
    #[error("{flag} {}: {source}", path.display())]
    File { flag: &'static str, path: PathBuf, source: std::io::Error },
    #[error("{flag}: {why}")]
    Flag { flag: &'static str, why: String },
}

const WEBHOOK: &str = "--authentication-token-webhook-config-file";
const CONFIG: &str = "--authentication-config";
const WEBHOOK_TTL: Duration = Duration::from_secs(120);

impl AccessFlags {
    /// Everything that the flags and their files say. `client_ca_pem` is the authority of users' certificates.
    pub(crate) fn load(&self, client_ca_pem: &str) -> Result<Access, AccessError> {
        let (keyring, accounts) = self.accounts.load()?;
        let static_tokens = self.token_auth_file.as_ref().map(|path| {
            let text = read("--token-auth-file", path)?;
            StaticTokens::parse(&text).map_err(|source| AccessError::Tokens { path: path.clone(), source })
        });
        let issuers_of_flags = self.oidc.load(&accounts.issuers)?;
        let (issuers, anonymous) = match &self.authentication_config {
            None => (issuers_of_flags.into_iter().collect(), None),
            Some(_) if issuers_of_flags.is_some() => {
                let why = "cannot be used together with --oidc-* flags".to_owned();
                return Err(AccessError::Flag { flag: CONFIG, why });
            }
            Some(path) => {
                config::read(path, &accounts.issuers).map_err(|source| AccessError::Config { flag: CONFIG, source })?
            }
        };
        let anonymous = match (anonymous, self.anonymous_auth) {
            (Some(_), Some(_)) => {
                let why = "cannot be set when anonymous is configured by --authentication-config".to_owned();
                return Err(AccessError::Flag { flag: "--anonymous-auth", why });
            }
            (Some(anonymous), None) => anonymous,
            (None, Some(false)) => Anonymous::Refused,
            (None, _) => Anonymous::Everywhere,
        };
        let authentication = Authentication {
            front_proxy: self.proxy.load(client_ca_pem)?,
            static_tokens: static_tokens.transpose()?,
            issuers,
            webhook: self.webhook()?,
            anonymous,
            keyring,
            accounts,
        };
        Ok(Access { authentication, authorization: self.authorization.load()? })
    }

    fn webhook(&self) -> Result<Option<TokenWebhook>, AccessError> {
        let Some(path) = &self.authentication_token_webhook_config_file else { return Ok(None) };
        let endpoint = Endpoint::of_kubeconfig(path);
        Ok(Some(TokenWebhook {
            endpoint: endpoint.map_err(|source| AccessError::Endpoint { flag: WEBHOOK, source })?,
            version: self.authentication_token_webhook_version.clone().unwrap_or_else(|| "v1beta1".to_owned()),
            ttl: self.authentication_token_webhook_cache_ttl.unwrap_or(WEBHOOK_TTL),
        }))
    }
}

fn read(flag: &'static str, path: &Path) -> Result<String, AccessError> {
    std::fs::read_to_string(path).map_err(|source| AccessError::File { flag, path: path.into(), source })
}

/// As Go reads it: `2m`, `30s`, `0`.
fn go_duration(text: &str) -> Result<Duration, String> {
    let seconds = duration::seconds(text).and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "give a duration, such as 2m or 30s".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pintle_apiserver::authz::config::Mode;

    #[derive(clap::Parser)]
    struct Program {
        #[command(flatten)]
        access: AccessFlags,
    }

    fn load(arguments: &[&str]) -> Result<Access, String> {
        let program = Program::try_parse_from(std::iter::once(&"up").chain(arguments)).map_err(|e| e.to_string())?;
        program.access.load("").map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_everything_is_as_the_cluster_makes_it() {
        let access = load(&[]).unwrap();
        assert_eq!(access.authentication.anonymous, Anonymous::Everywhere);
        assert!(matches!(access.authorization.chain[..], [Mode::Node, Mode::Rbac]));
        assert!(Program::parse_from(["up"]).access == AccessFlags::default());
        assert!(Program::parse_from(["up", "--anonymous-auth=false"]).access != AccessFlags::default());
    }

    #[test]
    fn what_is_meant_is_named_and_what_cannot_be_is_refused_before_anything_starts() {
        assert_eq!(load(&["--anonymous-auth=false"]).unwrap().authentication.anonymous, Anonymous::Refused);
        let modes = load(&["--authorization-mode=RBAC,AlwaysDeny"]).unwrap().authorization.chain;
        assert!(matches!(modes[..], [Mode::Rbac, Mode::AlwaysDeny]));
        let oidc = ["--oidc-issuer-url=https://issuer", "--oidc-client-id=me", "--oidc-groups-claim=roles"];
        let access = load(&oidc).unwrap();
        let [issuer] = &access.authentication.issuers[..] else { panic!("one issuer") };
        assert_eq!(issuer.mappings.username.prefix, "https://issuer#");
        for (arguments, why) in [
            (&["--authorization-mode=Magic"][..], "--authorization-mode: \"Magic\""),
            (&["--authorization-mode=RBAC,RBAC"], "more than once"),
            (&["--authorization-mode=Webhook"], "--authorization-webhook-config-file"),
            (&["--authorization-mode=ABAC"], "ABAC"),
            (&["--authorization-webhook-config-file=/x"], "without the mode Webhook"),
            (&["--authorization-config=/nowhere"], "--authorization-config: /nowhere"),
            (&["--authorization-config=/nowhere", "--authorization-mode=RBAC"], "cannot be used together"),
            (&["--token-auth-file=/nowhere"], "--token-auth-file /nowhere"),
            (&["--authentication-config=/nowhere"], "--authentication-config: /nowhere"),
            (&["--authentication-token-webhook-config-file=/nowhere"], "/nowhere"),
            (&["--authentication-token-webhook-version=v2"], "v2"),
            (&["--oidc-issuer-url=http://issuer", "--oidc-client-id=me"], "https"),
            (&["--oidc-issuer-url=https://issuer"], "--oidc-client-id"),
            (&["--oidc-client-id=me"], "--oidc-issuer-url"),
            (&["--requestheader-allowed-names=a"], "--requestheader-client-ca-file"),
            (&["--service-account-issuer="], "--service-account-issuer"),
            (&["--service-account-signing-key-file=/nowhere"], "/nowhere"),
        ] {
            let error = load(arguments).err().unwrap_or_else(|| panic!("{arguments:?} is taken"));
            assert!(error.contains(why), "{arguments:?}: {error}");
        }
    }
}
