//! Where objects are kept: the only place that knows how keys look. They are laid out as Kubernetes lays them out.

const ROOT: &str = "/registry/";

pub const API_SERVICES: &str = "/registry/apiregistration.k8s.io/apiservices/";
pub const CLUSTER_ROLES: &str = "/registry/clusterroles/";
pub const CLUSTER_ROLE_BINDINGS: &str = "/registry/clusterrolebindings/";
pub const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
pub const DISRUPTION_BUDGETS: &str = "/registry/poddisruptionbudgets/";
pub const FLOW_SCHEMAS: &str = "/registry/flowschemas/";
/// The objects that say where the API server is.
pub const KUBERNETES_ENDPOINTS: &str = "/registry/services/endpoints/default/kubernetes";
pub const KUBERNETES_SLICE: &str = "/registry/endpointslices/default/kubernetes";
pub const INGRESS_CLASSES: &str = "/registry/ingressclasses/";
pub const IP_ADDRESSES: &str = "/registry/ipaddresses/";
pub const LIMIT_RANGES: &str = "/registry/limitranges/";
pub const MUTATING_WEBHOOKS: &str = "/registry/mutatingwebhookconfigurations/";
pub const NAMESPACES: &str = "/registry/namespaces/";
pub const NODES: &str = "/registry/minions/";
pub const PODS: &str = "/registry/pods/";
pub const PRIORITY_CLASSES: &str = "/registry/priorityclasses/";
pub const PRIORITY_LEVELS: &str = "/registry/prioritylevelconfigurations/";
pub const RESOURCE_QUOTAS: &str = "/registry/resourcequotas/";
pub const ROLES: &str = "/registry/roles/";
pub const ROLE_BINDINGS: &str = "/registry/rolebindings/";
pub const RUNTIME_CLASSES: &str = "/registry/runtimeclasses/";
pub const SECRETS: &str = "/registry/secrets/";
/// Servers over one store, each for as long as it says so.
pub const SERVERS: &str = "/registry/masterleases/";
pub const SERVICE_ACCOUNTS: &str = "/registry/serviceaccounts/";
pub const SERVICE_CIDRS: &str = "/registry/servicecidrs/";
pub const STORAGE_CLASSES: &str = "/registry/storageclasses/";
pub const VALIDATING_WEBHOOKS: &str = "/registry/validatingwebhookconfigurations/";
pub const VOLUMES: &str = "/registry/persistentvolumes/";
pub const VOLUME_ATTACHMENTS: &str = "/registry/volumeattachments/";

/// What one Service alone may hold.
pub const SERVICE_ADDRESSES: &str = "/registry/ranges/serviceips/";
pub const SERVICE_NODE_PORTS: &str = "/registry/ranges/servicenodeports/";

/// The object that shows who has a claim, where there is one: an IPAddress.
pub fn shown_claim(claim: &str) -> Option<String> {
    rest(claim, SERVICE_ADDRESSES).map(|address| named(IP_ADDRESSES, address))
}

/// The claim that an object shows.
pub fn claim_shown_by(key: &str) -> Option<String> {
    rest(key, IP_ADDRESSES).map(|address| named(SERVICE_ADDRESSES, address))
}

/// The prefix of a built-in kind's objects.
pub fn builtin(group: &str, resource: &str) -> String {
    let name = match (group, resource) {
        ("", "nodes") => "minions",
        ("", "services") => "services/specs",
        ("", "endpoints") => "services/endpoints",
        ("", "replicationcontrollers") => "controllers",
        ("networking.k8s.io", "ingresses") => "ingress",
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => return custom(group, resource),
        _ => resource,
    };
    format!("{ROOT}{name}/")
}

/// The prefix of a custom kind's objects.
pub fn custom(group: &str, resource: &str) -> String {
    format!("{ROOT}{group}/{resource}/")
}

/// The key of an object that is in no namespace.
pub fn named(prefix: &str, name: &str) -> String {
    format!("{prefix}{name}")
}

pub fn in_namespace(prefix: &str, namespace: &str, name: &str) -> String {
    format!("{prefix}{namespace}/{name}")
}

/// The prefix of a namespace's objects of a kind.
pub fn namespace(prefix: &str, namespace: &str) -> String {
    format!("{prefix}{namespace}/")
}

/// What stands behind the prefix: a name, or a namespace and a name.
pub fn rest<'a>(key: &'a str, prefix: &str) -> Option<&'a str> {
    key.strip_prefix(prefix)
}
