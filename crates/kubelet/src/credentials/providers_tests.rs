//! Plugins that are real programs, and answers that hold as long as they say.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::*;

/// A program that notes each time it is asked, and what it was asked.
fn program(directory: &Path, answer: &Value, end: &str) {
    let path = directory.join("lamp");
    let noted = directory.join("asked").display().to_string();
    let script =
        format!("#!/bin/sh\ncat >> {noted}; echo \" $1 $LAMP\" >> {noted}\ncat <<'EOF'\n{answer}\nEOF\n{end}\n");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn asked(directory: &Path) -> usize {
    std::fs::read_to_string(directory.join("asked")).unwrap_or_default().lines().count()
}

fn config() -> Value {
    json!({"apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{
        "name": "lamp", "apiVersion": SPOKEN[0], "matchImages": ["*.example.com", "docker.io"],
        "defaultCacheDuration": "0s", "args": ["get"], "env": [{"name": "LAMP", "value": "on"}]}]})
}

fn answer(scope: &str, holds: Option<&str>) -> Value {
    json!({"apiVersion": SPOKEN[0], "kind": "CredentialProviderResponse", "cacheKeyType": scope,
        "cacheDuration": holds, "auth": {"*.example.com": {"username": "u", "password": "p"}}})
}

#[tokio::test]
async fn a_plugin_is_asked_for_its_images_only_and_its_answer_holds_as_long_as_it_says() {
    for (scope, holds, expected) in [
        // Asked for one image, the same again, another of the registry, another registry.
        ("Image", Some("1h"), [1, 1, 2, 3]),
        ("Registry", Some("1h0m0s"), [1, 1, 1, 2]),
        ("Global", Some("1h"), [1, 1, 1, 1]),
        ("Global", None, [1, 2, 3, 4]),
    ] {
        let place = tempfile::tempdir().unwrap();
        program(place.path(), &answer(scope, holds), "");
        let now = Timestamp::UNIX_EPOCH;
        let config = CredentialProviders::new(&config(), place.path().to_owned()).unwrap();
        let providers = Providers::new(config);
        let images = ["eu.example.com/a:1", "eu.example.com/a:1", "eu.example.com/b", "us.example.com/a"];
        for (image, expected) in images.iter().zip(expected) {
            let found = providers.credentials(image, now).await;
            assert_eq!((found[0].username.as_str(), found[0].password.as_str()), ("u", "p"));
            assert_eq!(asked(place.path()), expected, "{scope} {holds:?} {image}");
        }
        assert!(providers.credentials("example.org/a", now).await.is_empty());
        assert_eq!(asked(place.path()), expected[3]);
        // An image of Docker's own registry is one of its, and none of the answer's.
        assert!(providers.credentials("busybox", now).await.is_empty());
        let before = asked(place.path());
        providers.credentials(images[0], now + Duration::from_secs(3601)).await;
        assert_eq!(asked(place.path()), before + 1);
        let note = std::fs::read_to_string(place.path().join("asked")).unwrap();
        assert!(note.contains(r#""image":"eu.example.com/a:1""#) && note.contains("} get on"), "{note}");
    }
}

#[tokio::test]
async fn a_plugin_that_fails_or_talks_nonsense_gives_nothing_and_shows_no_password() {
    let place = tempfile::tempdir().unwrap();
    let config = CredentialProviders::new(&config(), place.path().to_owned()).unwrap();
    let asked = async || plugin::ask(place.path(), &config.providers[0], "eu.example.com/a").await.unwrap_err();
    assert!(asked().await.contains("does not start"));
    program(place.path(), &answer("Image", None), "echo oh >&2; exit 3");
    assert!(asked().await.contains("exit status: 3: oh"));
    program(place.path(), &json!({"auth": {"x": {"password": "hidden"}}}), "");
    let said = asked().await;
    assert!(said.contains("not understood") && !said.contains("hidden"), "{said}");
    let mut other = answer("Image", None);
    other["apiVersion"] = "credentialprovider.kubelet.k8s.io/v9".into();
    program(place.path(), &other, "");
    assert!(asked().await.contains("not as asked in"));
}

#[test]
fn a_wrong_configuration_names_the_field() {
    let wrong = |change: fn(&mut Value)| {
        let mut config = config();
        change(&mut config);
        CredentialProviders::new(&config, PathBuf::new()).unwrap_err()
    };
    assert!(wrong(|config| config["kind"] = "Pod".into()).contains("CredentialProviderConfig"));
    assert!(wrong(|config| config["providers"] = json!([])).starts_with("providers:"));
    assert!(wrong(|config| config["providers"][0]["name"] = "../sh".into()).starts_with("providers[0].name:"));
    assert!(wrong(|config| config["providers"][0]["matchImages"] = json!([])).starts_with("providers[0].matchImages"));
    assert!(wrong(|config| config["providers"][0]["apiVersion"] = "v1".into()).starts_with("providers[0].apiVersion"));
    let short = wrong(|config| config["providers"][0]["defaultCacheDuration"] = "soon".into());
    assert!(short.starts_with("providers[0].defaultCacheDuration"), "{short}");
}
