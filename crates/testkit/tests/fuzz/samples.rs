//! Valid objects of many kinds, from which everything else is made.

use serde_json::{Value, json};

/// Where objects of a kind are created, and one of them.
pub struct Sample {
    pub collection: &'static str,
    pub object: Value,
    /// All but one are: a request for a certificate would have to be signed.
    pub is_valid: bool,
}

impl Sample {
    /// It is answered and not stored, and has no name.
    pub fn is_question(&self) -> bool {
        self.collection.ends_with("reviews")
    }
}

pub fn samples() -> Vec<Sample> {
    let pod = json!({"containers": [{"name": "c", "image": "nginx:1", "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "env": [{"name": "A", "value": "b"}, {"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1"}},
        "livenessProbe": {"httpGet": {"path": "/", "port": 80}}, "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        "volumes": [{"name": "v", "emptyDir": {}}], "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone",
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]}}]}}});
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": pod});
    let selector = json!({"matchLabels": {"app": "x"}});
    let of = |collection: &'static str, object: Value| {
        let is_valid = !collection.ends_with("certificatesigningrequests");
        Sample { collection, object, is_valid }
    };
    vec![
        of("/api/v1/namespaces/default/configmaps", json!({"data": {"a": "1"}, "binaryData": {"b": "AAEC"}})),
        of("/api/v1/namespaces/default/secrets", json!({"stringData": {"user": "u"}, "type": "Opaque"})),
        of("/api/v1/namespaces/default/pods", json!({"spec": pod})),
        of(
            "/api/v1/namespaces/default/services",
            json!({"spec": {"type": "NodePort", "selector": {"app": "x"}, "ports": [{"name": "http", "port": 80, "targetPort": "web"}]}}),
        ),
        of("/api/v1/namespaces/default/serviceaccounts", json!({"secrets": [{"name": "s"}]})),
        of(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}),
        ),
        of(
            "/api/v1/persistentvolumes",
            json!({"spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp/x"}}}),
        ),
        of(
            "/api/v1/namespaces/default/limitranges",
            json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "200m"}, "max": {"cpu": "1"}}]}}),
        ),
        of("/api/v1/namespaces/default/resourcequotas", json!({"spec": {"hard": {"pods": "4", "requests.cpu": "1"}}})),
        of(
            "/api/v1/namespaces/default/endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]}),
        ),
        of(
            "/api/v1/namespaces/default/events",
            json!({"involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}, "reason": "Started", "type": "Normal"}),
        ),
        of("/api/v1/namespaces/default/replicationcontrollers", json!({"spec": {"replicas": 1, "template": template}})),
        of(
            "/api/v1/nodes",
            json!({"spec": {"podCIDR": "10.244.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule"}]}}),
        ),
        of("/api/v1/namespaces", json!({"metadata": {"labels": {"a": "b"}}})),
        of(
            "/apis/apps/v1/namespaces/default/deployments",
            json!({"spec": {"replicas": 2, "selector": selector, "template": template, "strategy": {"rollingUpdate": {"maxSurge": "25%"}}}}),
        ),
        of(
            "/apis/apps/v1/namespaces/default/replicasets",
            json!({"spec": {"replicas": 2, "selector": selector, "template": template}}),
        ),
        of(
            "/apis/apps/v1/namespaces/default/statefulsets",
            json!({"spec": {"serviceName": "s", "selector": selector, "template": template,
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}}),
        ),
        of(
            "/apis/apps/v1/namespaces/default/daemonsets",
            json!({"spec": {"selector": selector, "template": template}}),
        ),
        of(
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}, "backoffLimit": 3}}),
        ),
        of(
            "/apis/batch/v1/namespaces/default/cronjobs",
            json!({"spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}),
        ),
        of(
            "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 5, "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"},
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}}]}}),
        ),
        of(
            "/apis/networking.k8s.io/v1/namespaces/default/ingresses",
            json!({"spec": {"rules": [{"host": "a.example.com", "http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": {"name": "s", "port": {"number": 80}}}}]}}]}}),
        ),
        of(
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
            json!({"spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}], "ports": [{"port": 80, "endPort": 90}]}]}}),
        ),
        of(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}}),
        ),
        of(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
            json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}),
        ),
        of(
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
        ),
        of(
            "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r", "apiGroup": ""}, "subjects": [{"kind": "User", "name": "u"}]}),
        ),
        of(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%", "selector": selector}}),
        ),
        of(
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            json!({"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]}),
        ),
        of(
            "/apis/storage.k8s.io/v1/storageclasses",
            json!({"provisioner": "a.example.com/b", "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}]}),
        ),
        of("/apis/scheduling.k8s.io/v1/priorityclasses", json!({"value": 1000})),
        of("/apis/node.k8s.io/v1/runtimeclasses", json!({"handler": "h", "overhead": {"podFixed": {"cpu": "1"}}})),
        of(
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
            json!({"spec": {"request": "AAAA", "signerName": "example.com/s", "usages": ["client auth"]}}),
        ),
        of(
            "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
            json!({"webhooks": [{"name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://localhost/x"}, "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]}]}),
        ),
        of(
            "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
            json!({"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}),
        ),
        of(
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            json!({"spec": {"user": "u", "resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        ),
        of("/apis/authentication.k8s.io/v1/tokenreviews", json!({"spec": {"token": "a.b.c"}})),
        of("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition("things")),
        of(
            "/apis/example.com/v1/namespaces/default/ships",
            json!({"apiVersion": "example.com/v1", "kind": "Ship", "spec": {"masts": 3, "crew": [{"name": "a", "age": 3}], "free": {"x": [1]}}}),
        ),
    ]
}

/// Whose objects the last sample creates.
pub fn ships() -> Value {
    definition("ships")
}

fn definition(plural: &str) -> Value {
    let singular = plural.trim_end_matches('s');
    let kind = format!("{}{}", singular[..1].to_uppercase(), &singular[1..]);
    json!({"metadata": {"name": format!("{plural}.example.com")}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"plural": plural, "singular": singular, "kind": kind},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.masts", "statusReplicasPath": ".status.masts"}},
            "additionalPrinterColumns": [{"name": "Masts", "type": "integer", "jsonPath": ".spec.masts"}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": {
                "masts": {"type": "integer", "minimum": 1, "default": 2}, "flag": {"type": "string", "pattern": "^[a-z]*$", "maxLength": 9},
                "crew": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"], "items": {"type": "object",
                    "required": ["name"], "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}}}]}})
}
