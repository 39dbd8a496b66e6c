//! What a server is told before it starts, beside its parts: who comes in, which admission plugins are on, what is served.

#[cfg(test)]
mod tests;

use crate::access::Access;
use crate::admission;
use crate::catalogue::Served;
use crate::gates::Gates;

/// Everything that Kubernetes' API server takes from flags and configuration files. The default is a server without any.
#[derive(Default)]
pub struct Setup {
    pub access: Access,
    pub admission: admission::Setup,
    pub served: Served,
    pub gates: Gates,
}

impl From<Access> for Setup {
    fn from(access: Access) -> Self {
        Setup { access, ..Setup::default() }
    }
}
