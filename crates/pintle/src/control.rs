//! `pintle up --ephemeral --control`: the same cluster in virtual time, with the test kit's controls beside the API.

use crate::credential::ADMINISTRATOR;
use crate::kubeconfig::{self, Login};
use crate::loops::{NODES, SCHEDULER};
use crate::say::say;
use crate::scratch::Scratch;
use crate::signals::Signals;
use crate::up::{Failure, Flags, addresses, listen, reachable, until_stopped, write_kubeconfig};
use pintle_apiserver::authn::MASTERS;
use pintle_apiserver::pki::Pki;
use pintle_meta::Clock;
use pintle_store::Store;
use pintle_testkit::Cluster;
use pintle_testkit::control::{Control, Serving};
use std::sync::Arc;

pub(crate) async fn up(flags: Flags) -> Result<(), Failure> {
    flags.check()?;
    let mut signals = Signals::new().map_err(Failure::Runtime)?;
    let scratch = Scratch::new().map_err(Failure::Scratch)?;
    // Certificates are checked by others, with the machine's time.
    let clock = Clock::system();
    let started = clock.now();
    let pki = match &flags.pki {
        Some(place) => Pki::open(place, clock.now())?,
        None => Pki::generate(clock.now())?,
    };
    say!("store      memory, nothing is kept");
    let tcp = listen(flags.listen).await?;
    let address = tcp.local_addr().map_err(Failure::Runtime)?;
    let tls = pki.server_tls(&addresses(address.ip()), &flags.tls_san, clock.now())?;
    let url = format!("https://{}", reachable(address));
    // Written before the first answer: who finds the server ready finds the way in.
    let config = write_kubeconfig(&flags, scratch.path(), &url, &pki, &clock)?;
    let admin = pki.client(ADMINISTRATOR, MASTERS, clock.now())?;
    let ca_pem = pki.ca_pem.clone();
    let serving = Serving {
        tls,
        ip: address.ip(),
        kubeconfig: Arc::new(move |address| {
            kubeconfig::render(&format!("https://{}", reachable(address)), &ca_pem, &Login::Identity(&admin))
        }),
    };
    let names: Vec<&'static str> = flags.loops.of_roster().iter().map(|known| known.name).collect();
    let nodes = if flags.loops.has(NODES) { flags.nodes.unwrap_or(1) } else { 0 };
    let builder = Cluster::builder().loops(&names).scheduler(flags.loops.has(SCHEDULER)).nodes(nodes);
    let builder = builder.root_ca(&pki.ca_pem);
    let control = Control::serve(builder, tcp, serving).await.map_err(Failure::Runtime)?;
    say!("api        {url}");
    say!("control    {url}/control; time is virtual and follows the machine's");
    say!("kubeconfig {}", config.display());
    say!("ready      in {} ms; Ctrl-C stops it", clock.now().duration_since(started).as_millis());
    say!();
    say!("  export KUBECONFIG={}", config.display());
    say!("  kubectl get --raw /control/time");

    let store: Arc<dyn Store> = control.cluster().store.clone();
    let outcome = until_stopped(&store, &mut signals).await;
    say!("stopping");
    drop(control);
    say!("stopped");
    outcome
}
