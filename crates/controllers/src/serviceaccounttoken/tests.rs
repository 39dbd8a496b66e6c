//! What users of tokens in Secrets would lose.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use serde_json::{Value, json};

use super::{SecretToken, plan};

fn secret(annotations: Value, data: &[(&str, &str)]) -> Secret {
    let mut annotated = json!({"kubernetes.io/service-account.name": "robot"});
    annotated.as_object_mut().unwrap().extend(annotations.as_object().unwrap().clone());
    let metadata =
        json!({"name": "key", "namespace": "shop", "uid": "s", "resourceVersion": "4", "annotations": annotated});
    let secret = json!({"metadata": metadata, "type": "kubernetes.io/service-account-token"});
    let mut secret: Secret = serde_json::from_value(secret).unwrap();
    let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
    secret.data = Some(data.iter().map(|(key, value)| ((*key).to_owned(), bytes(value))).collect());
    secret
}

fn account(uid: &str) -> ServiceAccount {
    serde_json::from_value(json!({"metadata": {"name": "robot", "namespace": "shop", "uid": uid}})).unwrap()
}

/// The Secret after it, or what else is done.
fn after(secret: &Secret, account: Option<&ServiceAccount>) -> Result<Secret, String> {
    let sign = |token: &SecretToken| {
        Ok(format!("{}/{}/{}/{}", token.namespace, token.secret, token.account, token.account_uid))
    };
    let plan = plan::plan(secret, account, Some("root"), sign).unwrap();
    match plan.writes.first() {
        Some(write) if write.to_string().starts_with("replace") => Ok(serde_json::from_value(write.body()).unwrap()),
        Some(write) => Err(write.to_string()),
        None => Err("nothing".to_owned()),
    }
}

fn text(secret: &Secret, key: &str) -> String {
    String::from_utf8(secret.data.as_ref().unwrap()[key].0.clone()).unwrap()
}

#[test]
fn a_secret_gets_a_token_of_its_account_once() {
    let filled = after(&secret(json!({}), &[("own", "kept")]), Some(&account("u"))).unwrap();
    let told = ["ca.crt", "namespace", "token", "own"].map(|key| text(&filled, key));
    assert_eq!(told, ["root", "shop", "shop/key/robot/u", "kept"]);
    assert_eq!(filled.metadata.annotations.as_ref().unwrap()["kubernetes.io/service-account.uid"], "u");
    assert_eq!(filled.metadata.resource_version.as_deref(), Some("4"), "what somebody else wrote is not lost");
    assert_eq!(after(&filled, Some(&account("u"))), Err("nothing".to_owned()));
}

#[test]
fn what_somebody_took_out_is_filled_in_again_and_a_new_root_is_published() {
    let uid = json!({"kubernetes.io/service-account.uid": "u"});
    let stale = secret(uid, &[("ca.crt", "old root"), ("token", "kept"), ("namespace", "")]);
    let filled = after(&stale, Some(&account("u"))).unwrap();
    assert_eq!(["ca.crt", "namespace", "token"].map(|key| text(&filled, key)), ["root", "shop", "kept"]);
}

#[test]
fn a_token_goes_with_its_account_and_is_not_for_the_next_of_that_name() {
    let gone = Err("delete secrets/key".to_owned());
    let of_old = secret(json!({"kubernetes.io/service-account.uid": "old"}), &[("token", "t")]);
    assert_eq!(after(&of_old, Some(&account("new"))), gone);
    assert_eq!(after(&of_old, None), gone);
    assert_eq!(after(&secret(json!({}), &[]), None), gone);
}

#[test]
fn without_a_signature_nothing_is_written() {
    let fails = |_: &SecretToken| Err("the key cannot sign".to_owned());
    assert_eq!(
        plan::plan(&secret(json!({}), &[]), Some(&account("u")), None, fails).unwrap_err(),
        "the key cannot sign"
    );
}
