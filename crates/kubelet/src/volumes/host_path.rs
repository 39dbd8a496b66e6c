//! A file or directory of the machine, and whether it is what the Pod expects.

use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use k8s_openapi::api::core::v1::HostPathVolumeSource;

use super::{Content, Wanted};

pub(super) fn wanted(name: &str, source: &HostPathVolumeSource) -> Wanted {
    let kind = source.type_.clone().unwrap_or_default();
    Wanted::new("host-path", name, Content::Host { path: source.path.clone().into(), kind })
}

/// Makes what is to be made and checks the rest.
pub(super) fn check(path: &Path, kind: &str) -> Result<(), String> {
    let (expected, matches): (&str, fn(&FileType) -> bool) = match kind {
        // The container runtime says it if there is nothing.
        "" => return Ok(()),
        "DirectoryOrCreate" | "Directory" => ("directory", |kind| kind.is_dir()),
        "FileOrCreate" | "File" => ("file", |kind| kind.is_file()),
        "Socket" => ("socket file", |kind| kind.is_socket()),
        "CharDevice" => ("character device", |kind| kind.is_char_device()),
        "BlockDevice" => ("block device", |kind| kind.is_block_device()),
        other => return Err(format!("{other} is an invalid volume type")),
    };
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && kind.ends_with("OrCreate") => {
            return make(path, kind).map_err(|error| format!("{} cannot be made: {error}", path.display()));
        }
        found => found,
    };
    match found {
        Ok(found) if matches(&found.file_type()) => Ok(()),
        Ok(found) => Err(format!(
            "hostPath type check failed: {} is not a {expected}, it's a {}",
            path.display(),
            described(&found.file_type())
        )),
        Err(error) => Err(format!(
            "hostPath type check failed, {} is not a {expected}, unable to determine its type: {error}",
            path.display()
        )),
    }
}

fn make(path: &Path, kind: &str) -> io::Result<()> {
    if kind == "DirectoryOrCreate" {
        return fs::DirBuilder::new().recursive(true).mode(0o755).create(path);
    }
    fs::OpenOptions::new().write(true).create(true).truncate(false).mode(0o644).open(path).map(drop)
}

fn described(kind: &FileType) -> &'static str {
    match kind {
        kind if kind.is_dir() => "directory",
        kind if kind.is_file() => "file",
        kind if kind.is_socket() => "socket file",
        kind if kind.is_char_device() => "character device",
        kind if kind.is_block_device() => "block device",
        _ => "special file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_does_not_start_on_something_else_than_it_expects() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("file"), "").unwrap();
        fs::create_dir(path("directory")).unwrap();
        let socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        for (name, fitting) in [
            ("file", "File FileOrCreate"),
            ("directory", "Directory DirectoryOrCreate"),
            ("socket", "Socket"),
            ("/dev/null", "CharDevice"),
            ("missing", ""),
        ] {
            for kind in ["File", "Directory", "Socket", "CharDevice", "BlockDevice"] {
                let fits = fitting.split(' ').any(|fitting| fitting == kind);
                assert_eq!(check(&path(name), kind).is_ok(), fits, "{name} {kind}");
            }
            assert_eq!(check(&path(name), ""), Ok(()));
        }
        drop(socket);
        let wrong = check(&path("file"), "DirectoryOrCreate").unwrap_err();
        assert!(wrong.ends_with("file is not a directory, it's a file"), "{wrong}");
        assert_eq!(check(&path("new/deep"), "DirectoryOrCreate"), Ok(()));
        assert_eq!(check(&path("new/file"), "FileOrCreate"), Ok(()));
        assert!(path("new/deep").is_dir() && path("new/file").is_file());
        assert!(check(&path("none/file"), "FileOrCreate").is_err());
        assert_eq!(check(&path("file"), "Odd"), Err("Odd is an invalid volume type".into()));
    }
}
