//! `pintle up --ephemeral --control`: the same cluster in virtual time, with the test kit's controls beside the API.

use crate::kubeconfig;
use crate::up::{Failure, Flags, addresses, listen, reachable, until_stopped, write_kubeconfig};
use pintle_apiserver::authn::MASTERS;
use pintle_apiserver::pki::Pki;
use pintle_meta::Clock;
use pintle_store::Store;
use pintle_testkit::Cluster;
use pintle_testkit::control::{Control, Serving};
use std::sync::Arc;

pub(crate) async fn up(flags: Flags) -> Result<(), Failure> {
    // Certificates are checked by others, with the machine's time.
    let clock = Clock::system();
    let started = clock.now();
    let pki = match &flags.pki {
        Some(place) => Pki::open(place, clock.now())?,
        None => Pki::generate(clock.now())?,
    };
    println!("store      memory, nothing is kept");
    let tcp = listen(flags.listen).await?;
    let address = tcp.local_addr().map_err(Failure::Runtime)?;
    let tls = pki.server_tls(&addresses(address.ip()), &flags.tls_san, clock.now())?;
    let url = format!("https://{}", reachable(address));
    // Written before the first answer: who finds the server ready finds the way in.
    let config = write_kubeconfig(&flags, None, &url, &pki, &clock)?;
    let admin = pki.client("kubernetes-admin", MASTERS, clock.now())?;
    let ca_pem = pki.ca_pem.clone();
    let serving = Serving {
        tls,
        ip: address.ip(),
        kubeconfig: Arc::new(move |address| {
            kubeconfig::render(&format!("https://{}", reachable(address)), &ca_pem, &admin)
        }),
    };
    let builder = Cluster::builder().nodes(flags.nodes.unwrap_or(1)).root_ca(&pki.ca_pem);
    let control = Control::serve(builder, tcp, serving).await.map_err(Failure::Runtime)?;
    println!("api        {url}");
    println!("control    {url}/control; time is virtual and follows the machine's");
    println!("kubeconfig {}", config.display());
    println!("ready      in {} ms; Ctrl-C stops it", clock.now().duration_since(started).as_millis());
    println!();
    println!("  export KUBECONFIG={}", config.display());
    println!("  kubectl get --raw /control/time");

    let store: Arc<dyn Store> = control.cluster().store.clone();
    let outcome = until_stopped(&store).await;
    println!("stopping");
    drop(control);
    println!("stopped");
    outcome
}
