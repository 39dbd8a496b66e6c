//! The faults around a `kube::Client`.

use super::{Broken, Faults, Life};
use http::{HeaderValue, Request, header};
use kube::Client;
use kube::client::Body;

impl Faults {
    /// A client whose requests these faults act on.
    pub fn over(&self, client: Client) -> Client {
        self.over_life(client, "", &Life::default())
    }

    /// The same for one life of one loop. Requests that carry no name yet are signed with the loop's.
    pub(crate) fn over_life(&self, client: Client, agent: &str, life: &Life) -> Client {
        let (faults, life, namespace) = (self.clone(), life.clone(), client.default_namespace().to_owned());
        let agent = HeaderValue::from_str(&format!("{agent}/pintle")).ok().filter(|_| !agent.is_empty());
        let service = tower::service_fn(move |mut request: Request<Body>| {
            let (faults, life, client) = (faults.clone(), life.clone(), client.clone());
            if let Some(agent) = &agent {
                request.headers_mut().entry(header::USER_AGENT).or_insert_with(|| agent.clone());
            }
            async move {
                let passed = faults.through(&life, request, |request| client.send(request)).await;
                passed.map_err(|broken| match broken {
                    Broken::Lost | Broken::Severed => kube::Error::Service(Box::new(Lost)),
                    Broken::Inner(error) => error,
                })
            }
        });
        Client::new(service, namespace)
    }
}

/// What a client gets in place of an answer that was lost on its way.
#[derive(Debug)]
struct Lost;

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("connection reset before the answer arrived (a fault that the test injected)")
    }
}

impl std::error::Error for Lost {}
