//! A volume with files from several sources: ConfigMaps, Secrets, the Pod itself and service account tokens.

use k8s_openapi::api::core::v1::{ProjectedVolumeSource, VolumeProjection};

use super::files::{Files, USUAL_MODE, file, of_config_map, of_secret};
use super::{Content, Medium, Sources, Wanted, downward_api, tokens};
use crate::make::Facts;

/// What a token's file may do where it has an owner of its own; the group of the volume is given its part later.
const OWNED_MODE: i32 = 0o600;

pub(super) fn wanted(
    name: &str,
    source: &ProjectedVolumeSource,
    facts: &Facts<'_>,
    sources: &Sources,
) -> Result<Wanted, String> {
    let mode = source.default_mode.unwrap_or(USUAL_MODE);
    let mut files = Files::new();
    let mut failures = Vec::new();
    for source in source.sources.iter().flatten() {
        match of_projection(source, facts, sources, mode) {
            Ok(more) => files.extend(more),
            Err(message) => failures.push(message),
        }
    }
    match failures.as_slice() {
        [] => {}
        [one] => return Err(one.clone()),
        several => return Err(format!("[{}]", several.join(", "))),
    }
    let content = Content::Files { files, medium: Medium::Memory { size: None } };
    Ok(Wanted::new("projected", name, content).read_only())
}

fn of_projection(source: &VolumeProjection, facts: &Facts<'_>, sources: &Sources, mode: i32) -> Result<Files, String> {
    if let Some(source) = &source.config_map {
        let map = sources.config_map(&source.name, source.optional)?;
        return of_config_map(map, source.items.as_deref(), mode, source.optional == Some(true));
    }
    if let Some(source) = &source.secret {
        let secret = sources.secret(&source.name, source.optional)?;
        return of_secret(secret, source.items.as_deref(), mode, source.optional == Some(true));
    }
    if let Some(source) = &source.downward_api {
        return downward_api::files(source.items.as_deref().unwrap_or_default(), facts, mode);
    }
    if let Some(source) = &source.service_account_token {
        let token = sources.tokens.get(&tokens::asked(source));
        let token = token.cloned().unwrap_or_else(|| Err("failed to fetch token: it was not asked for".to_owned()))?;
        let owner = single_user(facts);
        let has_group = facts.spec.security_context.as_ref().is_some_and(|context| context.fs_group.is_some());
        let mut file = file(token, if owner.is_some() || has_group { OWNED_MODE } else { mode });
        file.owner = owner;
        return Ok([(source.path.clone(), file)].into());
    }
    if source.cluster_trust_bundle.is_some() {
        return Err("clusterTrustBundle is not supported by this node; project a ConfigMap with the bundle".to_owned());
    }
    if source.pod_certificate.is_some() {
        return Err("podCertificate is not supported by this node; project a Secret with the certificate".to_owned());
    }
    Ok(Files::new())
}

/// The user that all containers of the Pod run as, if it is one and the spec names it.
fn single_user(facts: &Facts<'_>) -> Option<u32> {
    let of_pod = facts.spec.security_context.as_ref().and_then(|context| context.run_as_user);
    let mut users = facts.containers().map(|container| {
        let own = container.security_context.as_ref().and_then(|context| context.run_as_user);
        own.or(of_pod)
    });
    let first = users.next()??;
    users.all(|user| user == Some(first)).then_some(())?;
    // The largest number is no user: it stands for leaving the owner as it is.
    u32::try_from(first).ok().filter(|user| *user != u32::MAX)
}
