//! The files of a volume that the node agent writes: which keys, under which paths, with which modes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, KeyToPath, Secret};

/// What files may do if nobody says.
pub(super) const USUAL_MODE: i32 = 0o644;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) data: Vec<u8>,
    pub(crate) mode: u32,
    /// Who owns it, if not root.
    pub(crate) owner: Option<u32>,
}

/// By path below the volume.
pub(crate) type Files = BTreeMap<String, File>;

pub(super) fn file(data: impl Into<Vec<u8>>, mode: i32) -> File {
    File { data: data.into(), mode: u32::try_from(mode).unwrap_or_default() & 0o777, owner: None }
}

pub(super) fn of_config_map(
    map: Option<&ConfigMap>,
    items: Option<&[KeyToPath]>,
    mode: i32,
    optional: bool,
) -> Result<Files, String> {
    let mut data: BTreeMap<&str, &[u8]> = BTreeMap::new();
    if let Some(map) = map {
        data.extend(map.binary_data.iter().flatten().map(|(key, value)| (key.as_str(), value.0.as_slice())));
        data.extend(map.data.iter().flatten().map(|(key, value)| (key.as_str(), value.as_bytes())));
    }
    let missing = |key: &str| format!("configmap references non-existent config key: {key}");
    chosen(&data, items, mode, optional, missing)
}

pub(super) fn of_secret(
    secret: Option<&Secret>,
    items: Option<&[KeyToPath]>,
    mode: i32,
    optional: bool,
) -> Result<Files, String> {
    let data = secret.into_iter().flat_map(|secret| secret.data.iter().flatten());
    let data = data.map(|(key, value)| (key.as_str(), value.0.as_slice())).collect();
    chosen(&data, items, mode, optional, |key| format!("references non-existent secret key: {key}"))
}

/// All keys under their own names, or only those that are asked for, where they are asked for.
fn chosen(
    data: &BTreeMap<&str, &[u8]>,
    items: Option<&[KeyToPath]>,
    mode: i32,
    optional: bool,
    missing: impl Fn(&str) -> String,
) -> Result<Files, String> {
    let items = items.unwrap_or_default();
    if items.is_empty() {
        return Ok(data.iter().map(|(key, value)| ((*key).to_owned(), file(*value, mode))).collect());
    }
    let mut files = Files::new();
    for item in items {
        match data.get(item.key.as_str()) {
            Some(value) => {
                files.insert(item.path.clone(), file(*value, item.mode.unwrap_or(mode)));
            }
            None if optional => {}
            None => return Err(missing(&item.key)),
        }
    }
    Ok(files)
}
