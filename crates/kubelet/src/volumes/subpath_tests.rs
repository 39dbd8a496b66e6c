//! What a container must not see, however hard it tries.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::fs::RenameFlags;

use super::*;
use crate::volumes::testing;

/// A volume, something outside it, and a place to mount to; unmounted when dropped.
struct Scene {
    directory: tempfile::TempDir,
}

impl Scene {
    fn new() -> Option<Self> {
        testing::is_root().then(|| {
            let scene = Scene { directory: tempfile::tempdir().unwrap() };
            fs::create_dir_all(scene.at("volume")).unwrap();
            fs::create_dir_all(scene.at("outside")).unwrap();
            fs::write(scene.at("outside/secret"), "not yours").unwrap();
            scene
        })
    }

    fn at(&self, path: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(path)
    }

    fn expose(&self, sub_path: &str) -> io::Result<()> {
        expose(&self.at("volume"), sub_path, &self.at("subpaths/v/c/0"))
    }

    fn seen(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.at("subpaths/v/c/0").join(path)).ok()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        mounts::unmount_below(&self.at("")).unwrap();
    }
}

#[test]
fn a_container_sees_just_its_part_of_a_volume() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir_all(scene.at("volume/a/b")).unwrap();
    fs::write(scene.at("volume/a/b/file"), "mine").unwrap();
    scene.expose("a/b").unwrap();
    assert_eq!(scene.seen("file").as_deref(), Some("mine"));
    // The same again changes nothing; another one takes its place, even a file that of a directory.
    scene.expose("./a//b").unwrap();
    scene.expose("a").unwrap();
    assert_eq!(scene.seen("b/file").as_deref(), Some("mine"));
    scene.expose("a/b/file").unwrap();
    assert_eq!(fs::read_to_string(scene.at("subpaths/v/c/0")).unwrap(), "mine");
    scene.expose("a/b").unwrap();
    // A link that stays inside is followed, as in a volume of a ConfigMap.
    symlink("a", scene.at("volume/..data")).unwrap();
    symlink("..data/b", scene.at("volume/linked")).unwrap();
    scene.expose("linked").unwrap();
    assert_eq!(scene.seen("file").as_deref(), Some("mine"));
}

#[test]
fn a_directory_that_is_missing_is_made_with_the_rights_of_the_volume() {
    let Some(scene) = Scene::new() else { return };
    fs::set_permissions(scene.at("volume"), PermissionsExt::from_mode(0o2775)).unwrap();
    rustix::fs::chown(scene.at("volume"), None, Some(rustix::fs::Gid::from_raw(4242))).unwrap();
    scene.expose("new/deep").unwrap();
    let made = fs::metadata(scene.at("volume/new/deep")).unwrap();
    assert_eq!((made.mode() & 0o7777, made.gid()), (0o2775, 4242));
    fs::write(scene.at("volume/new/deep/file"), "there").unwrap();
    assert_eq!(scene.seen("file").as_deref(), Some("there"));
}

#[test]
fn no_link_leads_out_of_a_volume() {
    let Some(scene) = Scene::new() else { return };
    let outside = scene.at("outside");
    symlink(&outside, scene.at("volume/absolute")).unwrap();
    symlink("../outside", scene.at("volume/relative")).unwrap();
    symlink("../nowhere", scene.at("volume/dangling")).unwrap();
    symlink("/proc/self/root", scene.at("volume/magic")).unwrap();
    symlink("loop", scene.at("volume/loop")).unwrap();
    for path in [
        "absolute",
        "relative",
        "relative/new",
        "absolute/new",
        "dangling",
        "dangling/new",
        "magic",
        "magic/etc",
        "loop",
        "../outside",
        "a/../../outside",
        "relative/secret",
    ] {
        assert!(scene.expose(path).is_err(), "{path}");
        assert!(!mounts::is_mounted(&scene.at("subpaths/v/c/0")).unwrap(), "{path}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(!scene.at("nowhere").exists());
}

#[test]
fn variables_are_read_from_files_of_their_volume_only() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    fs::create_dir(at("volume")).unwrap();
    fs::write(at("outside"), "not yours").unwrap();
    fs::write(at("volume/env"), "A='1'").unwrap();
    fs::write(at("volume/large"), vec![b'x'; (1 << 20) + 1]).unwrap();
    symlink("env", at("volume/inside")).unwrap();
    symlink("../outside", at("volume/relative")).unwrap();
    symlink(at("outside"), at("volume/absolute")).unwrap();
    assert_eq!(read_file(&at("volume"), "env").unwrap(), "A='1'");
    assert_eq!(read_file(&at("volume"), "inside").unwrap(), "A='1'");
    for path in ["relative", "absolute", "../outside", "large", "missing", "."] {
        assert!(read_file(&at("volume"), path).is_err(), "{path}");
    }
}

#[test]
fn what_was_mounted_stays_when_its_name_is_given_to_another() {
    let Some(scene) = Scene::new() else { return };
    fs::create_dir(scene.at("volume/a")).unwrap();
    fs::write(scene.at("volume/a/file"), "mine").unwrap();
    scene.expose("a").unwrap();
    fs::rename(scene.at("volume/a"), scene.at("volume/b")).unwrap();
    symlink(scene.at("outside"), scene.at("volume/a")).unwrap();
    assert_eq!((scene.seen("file").as_deref(), scene.seen("secret")), (Some("mine"), None));
    assert!(scene.expose("a").is_err());
}

/// `PINTLE_SUBPATH_SWAPS=10000` for the long form.
#[test]
fn swapping_a_directory_for_a_link_never_shows_what_is_outside() {
    let Some(scene) = Scene::new() else { return };
    let swaps: usize = std::env::var("PINTLE_SUBPATH_SWAPS").ok().and_then(|text| text.parse().ok()).unwrap_or(200);
    fs::create_dir_all(scene.at("volume/swapped/deep")).unwrap();
    fs::write(scene.at("volume/swapped/deep/file"), "mine").unwrap();
    fs::create_dir_all(scene.at("outside/deep")).unwrap();
    fs::write(scene.at("outside/deep/secret"), "not yours").unwrap();
    symlink(scene.at("outside"), scene.at("volume/link")).unwrap();
    let outside: Vec<u64> = ["outside", "outside/deep"].map(|path| fs::metadata(scene.at(path)).unwrap().ino()).into();
    let (one, other) = (scene.at("volume/swapped"), scene.at("volume/link"));
    let (stop, swapped) = (AtomicBool::new(false), AtomicUsize::new(0));
    let target = scene.at("subpaths/v/c/0");
    let (mut shown, mut refused, mut escapes) = (0, 0, Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                rustix::fs::renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                swapped.fetch_add(1, Ordering::Relaxed);
            }
        });
        for index in 0.. {
            if index >= swaps && (shown > 0 && refused > 0 || index > swaps * 100) {
                break;
            }
            // No try is made in the same moment as the one before.
            let before = swapped.load(Ordering::Relaxed);
            while swapped.load(Ordering::Relaxed) == before {
                std::thread::yield_now();
            }
            let path = match index % 3 {
                0 => "swapped/deep".to_owned(),
                1 => "swapped".to_owned(),
                _ => format!("swapped/new-{index}/below"),
            };
            match scene.expose(&path) {
                Ok(()) => {
                    shown += 1;
                    let seen = fs::metadata(&target).map(|found| found.ino()).unwrap_or_default();
                    if outside.contains(&seen) || target.join("secret").exists() || target.join("deep/secret").exists()
                    {
                        escapes.push(path.clone());
                    }
                }
                Err(_) => refused += 1,
            }
            if mounts::unmount(&target).is_err() {
                escapes.push(format!("{path} stays mounted"));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(escapes, Vec::<String>::new());
    // Nothing was made outside either.
    assert_eq!(fs::read_dir(scene.at("outside")).unwrap().count(), 2);
    let swapped = swapped.into_inner();
    println!("{} tries, {swapped} swaps: {shown} shown, {refused} refused, 0 escapes", shown + refused);
    assert!(swapped >= swaps && shown > 0 && refused > 0, "{swapped} swaps, {shown} shown, {refused} refused");
}
