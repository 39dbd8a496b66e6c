//! Flags about proxies in front, which name users in headers.

use super::{AccessError, read};
use pintle_apiserver::authn::config::FrontProxy;
use pintle_apiserver::authn::front_proxy::{self, Options};
use std::path::PathBuf;

#[derive(clap::Args, Clone, Default, PartialEq)]
pub(super) struct ProxyFlags {
    /// The authorities of proxies that name users in headers. From others these headers count as absent.
    #[arg(long, value_name = "FILE")]
    requestheader_client_ca_file: Option<PathBuf>,
    /// The common names of these proxies [default: any that the authorities signed].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_allowed_names: Vec<String>,
    /// Headers that name the user; the first that has a value counts [default: X-Remote-User].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_username_headers: Vec<String>,
    /// Headers with the user's UID.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_uid_headers: Vec<String>,
    /// Headers with the user's groups [default: X-Remote-Group].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_group_headers: Vec<String>,
    /// How headers with extra values begin [default: X-Remote-Extra-].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    requestheader_extra_headers_prefix: Vec<String>,
}

const CA: &str = "--requestheader-client-ca-file";

impl ProxyFlags {
    pub(super) fn load(&self, client_ca_pem: &str) -> Result<Option<FrontProxy>, AccessError> {
        let refused = |why: String| AccessError::Flag { flag: CA, why };
        let Some(path) = &self.requestheader_client_ca_file else {
            return if *self == ProxyFlags::default() {
                Ok(None)
            } else {
                Err(refused("the other --requestheader-* flags have no effect without it".to_owned()))
            };
        };
        let or = |given: &[String], default: &str| match given {
            [] => vec![default.to_owned()],
            given => given.to_vec(),
        };
        let options = Options {
            ca_pem: read(CA, path)?,
            allowed_names: self.requestheader_allowed_names.iter().filter(|name| !name.is_empty()).cloned().collect(),
            username_headers: or(&self.requestheader_username_headers, "X-Remote-User"),
            uid_headers: self.requestheader_uid_headers.clone(),
            group_headers: or(&self.requestheader_group_headers, "X-Remote-Group"),
            extra_prefixes: or(&self.requestheader_extra_headers_prefix, "X-Remote-Extra-"),
        };
        front_proxy::FrontProxy::new(&options).map_err(|error| refused(error.to_string()))?;
        Ok(Some(FrontProxy { options, client_ca_pem: client_ca_pem.to_owned() }))
    }
}
