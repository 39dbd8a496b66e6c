//! Where plugins come to register: a socket in a directory that holds their sockets too.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use pintle_container::grpc::server::{self, Answer, Call, Service};
use pintle_meta::rules;
use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tonic::Status;

use super::messages::{Empty, REGISTER, RegisterRequest, VERSION};
use super::plugin::Remote;
use super::{Devices, SOCKET, Watch};

/// Tells agents that share a directory apart: who has locked it, serves.
const LOCK: &str = ".pintle-lock";

/// The directory while it is served.
pub(super) struct Open {
    pub(super) listener: UnixListener,
    /// Given back by the kernel, however the agent ends.
    _lock: File,
}

/// Makes the directory ready. Sockets from before go: plugins notice, and register again.
pub(super) fn open(directory: &Path) -> Result<Open, String> {
    let told = |error: io::Error| {
        format!(
            "device plugins cannot be served in {}: {error}; choose another place with --device-plugin-path",
            directory.display()
        )
    };
    let other = || {
        format!(
            "another node agent serves device plugins in {}; choose another place with --device-plugin-path",
            directory.display()
        )
    };
    DirBuilder::new().recursive(true).mode(0o755).create(directory).map_err(told)?;
    let lock = directory.join(LOCK);
    let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(lock).map_err(told)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| other())?;
    let socket = directory.join(SOCKET);
    // Kubernetes' own agent does not know of the lock.
    if std::os::unix::net::UnixStream::connect(&socket).is_ok() {
        return Err(other());
    }
    remove_sockets(directory).map_err(told)?;
    let listener = UnixListener::bind(&socket).map_err(told)?;
    fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(told)?;
    Ok(Open { listener, _lock: lock })
}

fn remove_sockets(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Answers plugins that register.
#[derive(Clone)]
pub(super) struct Registration {
    pub(super) devices: Arc<Devices>,
    pub(super) arrivals: mpsc::Sender<Watch>,
}

impl Service for Registration {
    async fn answer(&self, call: Call) -> Answer {
        match call.uri().path() {
            REGISTER => server::unary(call, |request| self.register(request)).await,
            _ => server::unknown(&call),
        }
    }
}

impl Registration {
    async fn register(&self, request: RegisterRequest) -> Result<Empty, Status> {
        let resource = request.resource_name.clone();
        let registered = async {
            let socket = check(&self.devices.directory, &request)?;
            let watch = self.devices.take_on(&resource, Arc::new(Remote::new(&socket))).await?;
            self.arrivals.send(watch).await.map_err(|_| Status::unavailable("the node agent is about to end"))
        };
        match registered.await {
            Ok(()) => {
                tracing::info!(resource, endpoint = request.endpoint, "a device plugin has registered");
                Ok(Empty {})
            }
            Err(status) => {
                tracing::warn!(resource, why = status.message(), "a device plugin is refused");
                Err(status)
            }
        }
    }
}

/// Where the plugin's socket is, if it may register.
fn check(directory: &Path, request: &RegisterRequest) -> Result<PathBuf, Status> {
    let refuse = |message: String| Err(Status::invalid_argument(message));
    if request.version != VERSION {
        return refuse(format!(
            "requested API version {:?} is not supported by kubelet. Supported version is [{VERSION:?}]",
            request.version
        ));
    }
    if !is_extended(&request.resource_name) {
        return refuse(format!("the ResourceName {:?} is invalid", request.resource_name));
    }
    let mut parts = Path::new(&request.endpoint).components().peekable();
    let is_below = parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)));
    if !is_below || request.endpoint == SOCKET {
        return refuse(format!(
            "the endpoint {:?} is not the name of a socket of its own below {}",
            request.endpoint,
            directory.display()
        ));
    }
    Ok(directory.join(&request.endpoint))
}

/// Whether plugins may offer a resource of this name: it has the domain of its vendor.
pub(super) fn is_extended(name: &str) -> bool {
    let is_native = !name.contains('/') || name.contains("kubernetes.io/") || name.starts_with("requests.");
    !is_native && rules::qualified_name(&format!("requests.{name}")).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plugins_that_this_node_can_use_register() {
        let directory = Path::new("/plugins");
        for (version, endpoint, resource, expected) in [
            ("v1beta1", "lamp.sock", "example.com/lamp", Ok("/plugins/lamp.sock")),
            ("v1beta1", "of/lamp.sock", "example.com/lamp", Ok("/plugins/of/lamp.sock")),
            (
                "v1alpha1",
                "lamp.sock",
                "example.com/lamp",
                Err(
                    "requested API version \"v1alpha1\" is not supported by kubelet. Supported version is [\"v1beta1\"]",
                ),
            ),
            ("v1beta1", "lamp.sock", "lamp", Err("the ResourceName \"lamp\" is invalid")),
            ("v1beta1", "lamp.sock", "kubernetes.io/lamp", Err("the ResourceName \"kubernetes.io/lamp\" is invalid")),
            ("v1beta1", "lamp.sock", "requests.a/lamp", Err("the ResourceName \"requests.a/lamp\" is invalid")),
            ("v1beta1", "lamp.sock", "example.com/", Err("the ResourceName \"example.com/\" is invalid")),
        ] {
            let request = RegisterRequest {
                version: version.into(),
                endpoint: endpoint.into(),
                resource_name: resource.into(),
                options: None,
            };
            let found = check(directory, &request);
            let found = found.map_err(|status| status.message().to_owned());
            assert_eq!(found, expected.map(PathBuf::from).map_err(str::to_owned));
        }
    }

    #[test]
    fn a_plugins_socket_is_one_of_its_own_below_the_directory() {
        for endpoint in ["", "/run/other.sock", "../other.sock", "of/../../other.sock", "kubelet.sock"] {
            let request = RegisterRequest {
                version: VERSION.into(),
                endpoint: endpoint.into(),
                resource_name: "example.com/lamp".into(),
                options: None,
            };
            let refused = check(Path::new("/plugins"), &request).unwrap_err();
            assert!(refused.message().contains("is not the name of a socket of its own below /plugins"), "{endpoint}");
        }
    }
}
