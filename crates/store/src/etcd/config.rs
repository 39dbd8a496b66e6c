//! Where etcd is and how it is reached, and what is wrong when that cannot be read.

/// A cluster of etcd and the part of it that is ours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Members of the cluster, each `host:port`; any one that answers will do.
    pub endpoints: Vec<String>,
    /// TLS if given, plain text otherwise.
    pub tls: Option<Tls>,
    /// What every key of ours has before it in etcd. Empty if etcd is ours alone: all its keys are
    /// read then.
    pub prefix: String,
}

/// Whom to trust, and who we are.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// The authority that signed etcd's certificates.
    pub ca_pem: Option<Vec<u8>>,
    /// Our certificate and its key, for an etcd that asks clients for one.
    pub cert_and_key_pem: Option<(Vec<u8>, Vec<u8>)>,
}

/// Without the bytes: one of them is a private key.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls")
            .field("ca_pem", &self.ca_pem.is_some())
            .field("cert_and_key_pem", &self.cert_and_key_pem.is_some())
            .finish()
    }
}

/// Why an address of etcd was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("{url:?} does not begin with etcd://; write etcd://host:2379 or etcd://host:2379,host2:2379")]
    Scheme { url: String },
    #[error("{url:?} names no host; write etcd://host:2379 or etcd://host:2379,host2:2379")]
    NoHost { url: String },
    #[error("{endpoint:?} in {url:?} is not host:port; etcd's port is 2379 unless it was told otherwise")]
    Endpoint { url: String, endpoint: String },
}

impl Config {
    /// Reads `etcd://host:2379,host2:2379`, with the prefix of our keys as an optional path.
    pub fn parse(url: &str) -> Result<Self, ParseError> {
        let rest = url.strip_prefix("etcd://").ok_or_else(|| ParseError::Scheme { url: url.to_owned() })?;
        let (hosts, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if hosts.is_empty() {
            return Err(ParseError::NoHost { url: url.to_owned() });
        }
        let wrong = |endpoint: &str| ParseError::Endpoint { url: url.to_owned(), endpoint: endpoint.to_owned() };
        let endpoints: Result<Vec<String>, ParseError> = hosts
            .split(',')
            .map(|endpoint| if is_host_and_port(endpoint) { Ok(endpoint.to_owned()) } else { Err(wrong(endpoint)) })
            .collect();
        let prefix = path.trim_end_matches('/').to_owned();
        Ok(Self { endpoints: endpoints?, tls: None, prefix })
    }
}

fn is_host_and_port(endpoint: &str) -> bool {
    let Some((host, port)) = endpoint.rsplit_once(':') else { return false };
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let host_is_one = !host.is_empty() && (bracketed || !host.contains(':'));
    let odd = |c: char| c.is_whitespace() || matches!(c, '@' | '?' | '#' | '\\');
    host_is_one && !host.contains(odd) && port.parse::<u16>().is_ok_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_people_write_them() {
        let one = Config::parse("etcd://127.0.0.1:2379").expect("one member");
        assert_eq!((one.endpoints, one.prefix.as_str()), (vec!["127.0.0.1:2379".to_owned()], ""));
        let three = Config::parse("etcd://a.example:2379,b:2380,[::1]:2379/").expect("three members");
        assert_eq!((three.endpoints.len(), three.prefix.as_str()), (3, ""));
        assert_eq!(Config::parse("etcd://a:1/clusters/x").expect("a prefix").prefix, "/clusters/x");
    }

    #[test]
    fn an_address_that_cannot_be_read_says_what_is_wrong_with_it() {
        assert!(matches!(Config::parse("http://a:2379"), Err(ParseError::Scheme { .. })));
        assert!(matches!(Config::parse("etcd:///x"), Err(ParseError::NoHost { .. })));
        for bad in [
            "etcd://a",
            "etcd://a:",
            "etcd://:1",
            "etcd://a:99999",
            "etcd://a:1,,b:1",
            "etcd://::1:2379",
            "etcd://u@a:1",
        ] {
            let error = Config::parse(bad).expect_err(bad);
            assert!(matches!(error, ParseError::Endpoint { .. }), "{bad}: {error}");
            assert!(error.to_string().contains(bad), "{error}");
        }
    }
}
