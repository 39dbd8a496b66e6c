//! The etcd engine over a real etcd: the contract, several servers, and what goes wrong in a cluster.

mod faults;
mod gate;
mod servers;
mod tls;

mod contract {
    use pintle_store::etcd::testing::open;
    pintle_store::store_contract!(open().await);
}
