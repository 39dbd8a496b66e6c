//! Flags about what users may do.

use super::{AccessError, go_duration};
use pintle_apiserver::authz::config::{self, Authorization, Mode, WebhookConfig};
use pintle_apiserver::outbound::Endpoint;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(super) struct AuthorizationFlags {
    /// Who is asked whether a request may pass, in this order: Node, RBAC, Webhook, AlwaysAllow, AlwaysDeny [default: Node,RBAC].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    authorization_mode: Option<Vec<String>>,
    /// An AuthorizationConfiguration: the same in a file, with any number of webhooks (docs/authentication.md). Read once, at the
    /// start.
    #[arg(long, value_name = "FILE")]
    authorization_config: Option<PathBuf>,
    /// The program that the mode Webhook asks with a SubjectAccessReview: its address and credentials as a kubeconfig.
    #[arg(long, value_name = "FILE")]
    authorization_webhook_config_file: Option<PathBuf>,
    /// The version of the SubjectAccessReview that it is sent [default: v1beta1].
    #[arg(long, value_name = "VERSION", value_parser = ["v1", "v1beta1"])]
    authorization_webhook_version: Option<String>,
    /// For how long its yes counts [default: 5m].
    #[arg(long, value_name = "DURATION", value_parser = go_duration)]
    authorization_webhook_cache_authorized_ttl: Option<Duration>,
    /// For how long its no counts [default: 30s].
    #[arg(long, value_name = "DURATION", value_parser = go_duration)]
    authorization_webhook_cache_unauthorized_ttl: Option<Duration>,
}

const MODE: &str = "--authorization-mode";
const CONFIG: &str = "--authorization-config";
const WEBHOOK: &str = "--authorization-webhook-config-file";
const LIMIT: Duration = Duration::from_secs(30);
const AUTHORIZED_TTL: Duration = Duration::from_secs(300);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

impl AuthorizationFlags {
    pub(super) fn load(&self) -> Result<Authorization, AccessError> {
        let refused = |flag, why: String| AccessError::Flag { flag, why };
        if let Some(path) = &self.authorization_config {
            let alone =
                AuthorizationFlags { authorization_config: Some(path.clone()), ..AuthorizationFlags::default() };
            if *self != alone {
                let why = "cannot be used together with --authorization-mode or --authorization-webhook-* flags";
                return Err(refused(CONFIG, why.to_owned()));
            }
            return config::read(path).map_err(|source| AccessError::Config { flag: CONFIG, source });
        }
        let Some(modes) = &self.authorization_mode else {
            return match self.authorization_webhook_config_file {
                Some(_) => Err(refused(WEBHOOK, "has no effect without the mode Webhook".to_owned())),
                None => Ok(Authorization::default()),
            };
        };
        if self.authorization_webhook_config_file.is_some() && !modes.iter().any(|mode| mode == "Webhook") {
            return Err(refused(WEBHOOK, "has no effect without the mode Webhook".to_owned()));
        }
        let mut chain = Vec::new();
        for (index, mode) in modes.iter().enumerate() {
            if modes[..index].contains(mode) {
                return Err(refused(MODE, format!("{mode:?} is there more than once")));
            }
            chain.push(match mode.as_str() {
                "Node" => Mode::Node,
                "RBAC" => Mode::Rbac,
                "AlwaysAllow" => Mode::AlwaysAllow,
                "AlwaysDeny" => Mode::AlwaysDeny,
                "Webhook" => Mode::Webhook(Box::new(self.webhook()?)),
                "ABAC" => {
                    return Err(refused(
                        MODE,
                        "policy files of ABAC are not supported; use RBAC or a webhook".to_owned(),
                    ));
                }
                other => return Err(refused(MODE, format!("{other:?} is not a valid mode"))),
            });
        }
        Ok(Authorization { chain })
    }

    fn webhook(&self) -> Result<WebhookConfig, AccessError> {
        let Some(path) = &self.authorization_webhook_config_file else {
            let why = "the mode Webhook needs --authorization-webhook-config-file".to_owned();
            return Err(AccessError::Flag { flag: MODE, why });
        };
        let endpoint = Endpoint::of_kubeconfig(path);
        Ok(WebhookConfig {
            name: "default".to_owned(),
            endpoint: endpoint.map_err(|source| AccessError::Endpoint { flag: WEBHOOK, source })?,
            version: self.authorization_webhook_version.clone().unwrap_or_else(|| "v1beta1".to_owned()),
            timeout: LIMIT,
            authorized_ttl: self.authorization_webhook_cache_authorized_ttl.unwrap_or(AUTHORIZED_TTL),
            unauthorized_ttl: self.authorization_webhook_cache_unauthorized_ttl.unwrap_or(UNAUTHORIZED_TTL),
            denies_on_failure: false,
        })
    }
}
