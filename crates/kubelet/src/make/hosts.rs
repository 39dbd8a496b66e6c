//! A Pod's `/etc/hosts`.

use k8s_openapi::api::core::v1::HostAlias;

const HEADER: &str = "# Kubernetes-managed hosts file.\n";
const HEADER_ON_HOST_NETWORK: &str = "# Kubernetes-managed hosts file (host network).\n";

/// What every machine knows of itself.
const LOCAL: &str = "127.0.0.1\tlocalhost\n\
::1\tlocalhost ip6-localhost ip6-loopback\n\
fe00::0\tip6-localnet\n\
fe00::0\tip6-mcastprefix\n\
fe00::1\tip6-allnodes\n\
fe00::2\tip6-allrouters\n";

/// For a Pod with addresses of its own.
pub(crate) fn of_pod(addresses: &[String], hostname: &str, domain: &str, aliases: &[HostAlias]) -> String {
    let own = addresses.iter().map(|address| match domain {
        "" => format!("{address}\t{hostname}\n"),
        domain => format!("{address}\t{hostname}.{domain}\t{hostname}\n"),
    });
    format!("{HEADER}{LOCAL}{}{}", own.collect::<String>(), of_aliases(aliases))
}

/// For a Pod on the node's network: what the node has, and the Pod's aliases.
pub(crate) fn of_node(content: &str, aliases: &[HostAlias]) -> String {
    format!("{HEADER_ON_HOST_NETWORK}{content}{}", of_aliases(aliases))
}

fn of_aliases(aliases: &[HostAlias]) -> String {
    if aliases.is_empty() {
        return String::new();
    }
    let lines = aliases.iter().map(|alias| {
        let names: Vec<&str> = alias.hostnames.iter().flatten().map(String::as_str).collect();
        format!("{}\t{}\n", alias.ip, names.join("\t"))
    });
    format!("\n# Entries added by HostAliases.\n{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_knows_itself_and_its_aliases() {
        let addresses = ["10.64.0.5".to_owned()];
        let names = Some(vec!["foo.local".to_owned(), "bar.local".to_owned()]);
        let aliases = [HostAlias { ip: "127.0.0.1".into(), hostnames: names }];
        let of_one = of_pod(&addresses, "web-0", "", &[]);
        assert!(of_one.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
        assert!(of_one.ends_with("ip6-allrouters\n10.64.0.5\tweb-0\n"));
        let of_domain = of_pod(&addresses, "web-0", "web.shop.svc.cluster.local", &aliases);
        let end = "10.64.0.5\tweb-0.web.shop.svc.cluster.local\tweb-0\n\n\
                   # Entries added by HostAliases.\n127.0.0.1\tfoo.local\tbar.local\n";
        assert!(of_domain.ends_with(end), "{of_domain}");
        assert_eq!(of_node("1.2.3.4\tn\n", &[]), "# Kubernetes-managed hosts file (host network).\n1.2.3.4\tn\n");
        assert!(of_node("", &aliases).ends_with("127.0.0.1\tfoo.local\tbar.local\n"));
    }
}
