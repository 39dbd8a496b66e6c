//! Copies of a served cluster, each on a port of its own.

use super::Served;
use super::fields::Fields;
use pintle_meta::Status;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::TcpListener;

/// Copies at the same time: each is a whole cluster with its loops.
const MOST: usize = 64;

/// Every copy that runs, by its number.
#[derive(Default)]
pub(super) struct Forks(Mutex<State>);

#[derive(Default)]
struct State {
    issued: u64,
    running: BTreeMap<u64, (Arc<Served>, SocketAddr)>,
}

impl Forks {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end_all(&self) {
        let running = std::mem::take(&mut self.state().running);
        running.into_values().for_each(|(served, _)| served.stop());
    }
}

impl Served {
    /// `POST /control/fork`
    pub(super) async fn fork(&self, fields: Fields) -> Result<Value, Status> {
        fields.end()?;
        let full = || {
            let why = format!("{MOST} forks run already; end one with DELETE /control/forks/ID");
            Status::new(429, "TooManyRequests", why)
        };
        let id = {
            let mut state = self.forks.state();
            if state.running.len() >= MOST {
                return Err(full());
            }
            state.issued += 1;
            state.issued
        };
        let bound = async {
            let listener = TcpListener::bind((self.serving.ip, 0)).await?;
            let address = listener.local_addr()?;
            Ok::<_, std::io::Error>((listener, address))
        };
        let (listener, address) =
            bound.await.map_err(|error| Status::internal(format!("no port for the fork: {error}")))?;
        let cluster = self.cluster.fork().await;
        let served = Served::begin(id, cluster, listener, address, &self.time, &self.forks, &self.serving);
        self.forks.state().running.insert(id, (served, address));
        Ok(json!({"id": id.to_string(), "address": address.to_string(),
            "kubeconfig": (self.serving.kubeconfig)(address)}))
    }

    /// `GET /control/forks`
    pub(super) fn all_forks(&self) -> Value {
        let state = self.forks.state();
        let shown = state
            .running
            .iter()
            .map(|(id, (_, address))| json!({"id": id.to_string(), "address": address.to_string()}));
        json!({"forks": shown.collect::<Vec<Value>>()})
    }

    /// `DELETE /control/forks/ID`
    pub(super) fn end_fork(&self, id: &str) -> Result<Value, Status> {
        let number = id.parse().unwrap_or(0);
        if number == self.id && number > 0 {
            return Err(Status::bad_request("a fork cannot end itself; ask the cluster that it was forked from"));
        }
        let ended = self.forks.state().running.remove(&number);
        let Some((served, _)) = ended else {
            let why = format!("there is no fork {id:?}; GET /control/forks lists them");
            return Err(Status::new(404, "NotFound", why));
        };
        served.stop();
        Ok(json!({"ended": id}))
    }
}
