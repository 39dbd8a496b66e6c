//! Which resources the server has, for loops that work on all of them.

use kube::api::ApiResource;
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

fn found(resource: ApiResource, capabilities: &ApiCapabilities) -> Found {
    let namespaced = capabilities.scope == Scope::Namespaced;
    Found { resource, namespaced, verbs: capabilities.operations.clone() }
}
