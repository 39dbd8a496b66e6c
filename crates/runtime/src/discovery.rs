//! Which resources the server has, for loops that work on all of them.

use http::{HeaderValue, Request, StatusCode, header};
use kube::api::ApiResource;
use kube::client::Body;
use kube::discovery::{ApiCapabilities, Scope};
use kube::{Client, Discovery};

/// One resource, at its most stable version.
#[derive(Clone, Debug)]
pub struct Found {
    pub resource: ApiResource,
    pub namespaced: bool,
    pub verbs: Vec<String>,
}

impl Found {
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }
}

/// Every resource, sorted by group and plural. Asks for the aggregated form first and falls back to a request a group.
pub async fn discover(client: &Client) -> Result<Vec<Found>, kube::Error> {
    let discovery = match Discovery::new(client.clone()).run_aggregated().await {
        Ok(discovery) => discovery,
        Err(_) => Discovery::new(client.clone()).run().await?,
    };
    let mut found: Vec<Found> = discovery
        .groups_alphabetical()
        .into_iter()
        .flat_map(|group| group.resources_by_stability())
        .map(|(resource, capabilities)| found(resource, &capabilities))
        .collect();
    found.sort_by(|a, b| (&a.resource.group, &a.resource.plural).cmp(&(&b.resource.group, &b.resource.plural)));
    Ok(found)
}

/// The versions, as `GROUP/VERSION`, of which the server does not know what they have: another API server answers for them,
/// and does not.
pub async fn stale(client: &Client) -> Result<Vec<String>, kube::Error> {
    let groups = client.list_api_groups_aggregated().await?.items;
    let stale = groups.into_iter().flat_map(|group| {
        let name = group.metadata.and_then(|metadata| metadata.name).unwrap_or_default();
        let versions = group.versions.into_iter().filter(|version| version.freshness.as_deref() == Some("Stale"));
        versions.map(move |version| format!("{name}/{}", version.version.unwrap_or_default()))
    });
    Ok(stale.collect())
}

/// For who asks again and again: a server that tags its answers is asked only whether they have changed.
#[derive(Debug, Default)]
pub struct Discoverer {
    tags: [Option<HeaderValue>; 2],
}

const PATHS: [&str; 2] = ["/apis", "/api"];
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

impl Discoverer {
    /// Every resource; nothing if there is nothing new since the last time. An error must be followed by another try.
    pub async fn discover(&mut self, client: &Client) -> Result<Option<Vec<Found>>, kube::Error> {
        let mut tags = [None, None];
        let mut changed = false;
        // The tags come first: what changes before the resources are read is seen twice, not never.
        for ((path, known), tag) in PATHS.into_iter().zip(&self.tags).zip(&mut tags) {
            let mut request = Request::get(path).header(header::ACCEPT, AGGREGATED);
            if let Some(known) = known {
                request = request.header(header::IF_NONE_MATCH, known);
            }
            let answer = client.send(request.body(Body::empty()).map_err(kube::Error::HttpError)?).await?;
            changed |= answer.status() != StatusCode::NOT_MODIFIED;
            *tag = answer.headers().get(header::ETAG).cloned();
        }
        if !changed {
            return Ok(None);
        }
        let found = discover(client).await?;
        self.tags = tags;
        Ok(Some(found))
    }
}

fn found(resource: ApiResource, capabilities: &ApiCapabilities) -> Found {
    let namespaced = capabilities.scope == Scope::Namespaced;
    Found { resource, namespaced, verbs: capabilities.operations.clone() }
}
