//! Writes the files of a volume so that a container sees all of the old ones or all of the new ones.
//!
//! ```text
//! volume/..2026_11_16_08_00_00.123456789/key      the files
//! volume/..data -> ..2026_11_16_08_00_00.123456789  swapped by rename
//! volume/key -> ..data/key                        what containers open
//! ```
//!
//! A crash at any point leaves a volume that the next write brings in order.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::files::{File, Files};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Makes the volume at `directory` hold just these files; `finish` is called before they are seen. True if anything changed.
pub(super) fn write(
    directory: &Path,
    files: &Files,
    now: Timestamp,
    finish: impl FnOnce() -> io::Result<()>,
) -> Result<bool, String> {
    for path in files.keys() {
        check(path)?;
    }
    write_checked(directory, files, now, finish)
        .map_err(|error| format!("the files cannot be written to {}: {error}", directory.display()))
}

/// A path must stay below its volume and away from the names that are used here.
fn check(path: &str) -> Result<(), String> {
    let parts: Vec<Component<'_>> = Path::new(path).components().collect();
    let plain = parts.iter().all(|part| matches!(part, Component::Normal(_)));
    if parts.is_empty() || !plain || path.starts_with("..") {
        return Err(format!("invalid path {path:?}: it must be relative, and must not contain '..' or begin with it"));
    }
    Ok(())
}

fn write_checked(
    directory: &Path,
    files: &Files,
    now: Timestamp,
    finish: impl FnOnce() -> io::Result<()>,
) -> io::Result<bool> {
    let current = fs::read_link(directory.join(DATA)).ok();
    let is_same = current.as_ref().is_some_and(|current| holds(&directory.join(current), files));
    let target = match current {
        Some(current) if is_same => current,
        _ => {
            let target = new_directory(directory, now)?;
            for (path, file) in files {
                write_file(&directory.join(&target), path, file)?;
            }
            finish()?;
            remove_if_there(&directory.join(NEW_DATA))?;
            symlink(&target, directory.join(NEW_DATA))?;
            fs::rename(directory.join(NEW_DATA), directory.join(DATA))?;
            target
        }
    };
    let moved = link(directory, files)?;
    sweep(directory, &target)?;
    Ok(!is_same || moved)
}

/// Whether a directory has these files and no others.
fn holds(directory: &Path, files: &Files) -> bool {
    let equal = |(path, file): (&String, &File)| fs::read(directory.join(path)).is_ok_and(|data| data == file.data);
    let expected: BTreeSet<PathBuf> = files.keys().map(|path| Path::new(path).components().collect()).collect();
    files.iter().all(equal) && found(directory).is_ok_and(|found| found == expected)
}

/// The files below a directory that was written here, which has no symlinks.
fn found(directory: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(path) = pending.pop() {
        for entry in fs::read_dir(directory.join(&path))? {
            let entry = entry?;
            let path = path.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                pending.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    Ok(files)
}

fn new_directory(directory: &Path, now: Timestamp) -> io::Result<PathBuf> {
    let base = now.strftime("..%Y_%m_%d_%H_%M_%S.%9f").to_string();
    for count in 0..1000 {
        let name = PathBuf::from(if count == 0 { base.clone() } else { format!("{base}_{count}") });
        match fs::create_dir(directory.join(&name)) {
            Ok(()) => {
                // Whoever may see the volume may list it; the files have modes of their own.
                fs::set_permissions(directory.join(&name), fs::Permissions::from_mode(0o755))?;
                return Ok(name);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, format!("no name like {base} is free")))
}

fn write_file(directory: &Path, path: &str, file: &File) -> io::Result<()> {
    let whole = directory.join(path);
    if let Some(parent) = whole.parent() {
        fs::create_dir_all(parent)?;
        for ancestor in parent.ancestors().take_while(|ancestor| *ancestor != directory) {
            fs::set_permissions(ancestor, fs::Permissions::from_mode(0o755))?;
        }
    }
    fs::write(&whole, &file.data)?;
    if file.owner.is_some() {
        chown(&whole, file.owner, None)?;
    }
    // The process's own mask must not take away what the Pod asks for.
    fs::set_permissions(&whole, fs::Permissions::from_mode(file.mode))
}

/// Makes the names that containers open, and takes away those of files that went. True if any was made or taken.
fn link(directory: &Path, files: &Files) -> io::Result<bool> {
    let first = |path: &String| Path::new(path).components().next().map(|part| PathBuf::from(part.as_os_str()));
    let wanted: BTreeSet<PathBuf> = files.keys().filter_map(first).collect();
    let mut moved = false;
    for name in &wanted {
        let (path, target) = (directory.join(name), Path::new(DATA).join(name));
        if fs::read_link(&path).is_ok_and(|found| found == target) {
            continue;
        }
        remove_if_there(&path)?;
        symlink(target, path)?;
        moved = true;
    }
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        let is_ours = fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(DATA).join(&name));
        if is_ours && !wanted.contains(&name) {
            fs::remove_file(entry.path())?;
            moved = true;
        }
    }
    Ok(moved)
}

/// Removes the directories of older writes, and of those that did not come to their end.
fn sweep(directory: &Path, current: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_old = name.to_string_lossy().starts_with("..") && Path::new(&name) != current;
        if is_old && entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(pairs: &[(&str, &str)]) -> Files {
        let file = |(path, data): &(&str, &str)| ((*path).to_owned(), super::super::files::file(*data, 0o640));
        pairs.iter().map(file).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn put(directory: &Path, pairs: &[(&str, &str)], second: i64) -> bool {
        write(directory, &files(pairs), at(second), || Ok(())).unwrap()
    }

    fn read(directory: &Path, path: &str) -> Option<String> {
        fs::read_to_string(directory.join(path)).ok()
    }

    #[test]
    fn a_container_sees_new_files_all_at_once() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path();
        assert!(put(path, &[("a", "1"), ("deep/b", "2"), ("deep/er/c", "3")], 0));
        assert_eq!(read(path, "a").as_deref(), Some("1"));
        assert_eq!(read(path, "deep/er/c").as_deref(), Some("3"));
        assert_eq!(fs::metadata(path.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        let before = fs::read_link(path.join(DATA)).unwrap();
        assert_eq!(before, Path::new("..1970_01_01_00_00_00.000000000"));

        assert!(!put(path, &[("a", "1"), ("deep/b", "2"), ("deep/er/c", "3")], 60));
        assert_eq!(fs::read_link(path.join(DATA)).unwrap(), before);

        // Someone who holds the directory open still has all of the old files.
        let held = fs::canonicalize(path.join(DATA)).unwrap();
        let seen_before_the_swap = write(path, &files(&[("a", "9"), ("x", "8")]), at(120), || {
            assert_eq!(fs::read_to_string(held.join("a"))?, "1");
            assert_eq!(fs::read_to_string(path.join("a"))?, "1");
            Ok(())
        });
        assert_eq!(seen_before_the_swap, Ok(true));
        assert_eq!((read(path, "a").as_deref(), read(path, "x").as_deref()), (Some("9"), Some("8")));
        assert!(!path.join("deep").exists() && !held.exists());
        assert!(fs::symlink_metadata(path.join("deep")).is_err());
    }

    #[test]
    fn a_write_that_was_cut_off_anywhere_is_brought_to_its_end() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path();
        put(path, &[("a", "1"), ("b", "1")], 0);
        let failed = write(path, &files(&[("a", "2")]), at(1), || Err(io::Error::other("cut")));
        assert!(failed.is_err());
        assert_eq!((read(path, "a").as_deref(), read(path, "b").as_deref()), (Some("1"), Some("1")));
        symlink("nowhere", path.join(NEW_DATA)).unwrap();
        assert!(put(path, &[("a", "2")], 1));
        fs::remove_file(path.join("a")).unwrap();
        symlink("..data/old", path.join("old")).unwrap();
        assert!(put(path, &[("a", "2")], 2));
        assert_eq!(read(path, "a").as_deref(), Some("2"));
        let mut names: Vec<String> = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names, ["..1970_01_01_00_00_01.000000000_1", "..data", "a"]);
    }

    #[test]
    fn no_file_is_written_outside_its_volume() {
        let volume = tempfile::tempdir().unwrap();
        for path in ["", "/etc/x", "../x", "a/../../x", "..data", "..x", "a/.."] {
            let written = write(volume.path(), &files(&[(path, "x")]), at(0), || Ok(()));
            assert!(written.is_err_and(|message| message.contains("invalid path")), "{path}");
        }
        assert!(put(volume.path(), &[(".hidden", "x"), ("a..b", "y")], 0));
        assert_eq!(fs::read_dir(volume.path()).unwrap().count(), 4);
    }

    #[test]
    fn an_empty_volume_is_a_volume_too() {
        let volume = tempfile::tempdir().unwrap();
        assert!(put(volume.path(), &[], 0));
        assert!(!put(volume.path(), &[], 1));
        assert!(put(volume.path(), &[("a", "1")], 2));
        assert!(put(volume.path(), &[], 3));
        assert_eq!(read(volume.path(), "a"), None);
    }
}
