//! Objects of a custom kind from one version to another: ConversionReview v1.

use std::sync::Arc;

use futures::FutureExt;
use http::StatusCode;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::review::{Handler, Refusal, guarded};

const API_VERSION: &str = "apiextensions.k8s.io/v1";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Review {
    api_version: String,
    kind: String,
    request: Request,
}

#[derive(Deserialize)]
struct Request {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    wanted: String,
    objects: Vec<Value>,
}

/// `convert` gets an object as it is and the `apiVersion` that it is to have. One object that cannot be converted fails all that
/// were asked about with it, and its words reach the client.
pub(super) fn converting(convert: impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static) -> Handler {
    let convert = Arc::new(convert);
    Arc::new(move |body| {
        let convert = convert.clone();
        async move {
            let Request { uid, wanted, objects } = read(&body)?;
            let converting = async move {
                let converted = objects.into_iter().map(|object| {
                    let mut object = convert(object, &wanted)?;
                    object["apiVersion"] = wanted.as_str().into();
                    Ok(object)
                });
                converted.collect::<Result<Vec<Value>, String>>()
            };
            let response = match guarded(converting).await? {
                Ok(objects) => json!({"uid": uid, "result": {"status": "Success"}, "convertedObjects": objects}),
                Err(why) => json!({"uid": uid, "result": {"status": "Failure", "message": why}}),
            };
            let review = json!({"apiVersion": API_VERSION, "kind": "ConversionReview", "response": response});
            Ok(review.to_string().into_bytes())
        }
        .boxed()
    })
}

/// The function that converts between two versions of a kind, each a type of its own. What neither type knows is lost.
pub(super) fn between<A, B>() -> impl Fn(Value, &str) -> Result<Value, String> + Send + Sync + 'static
where
    A: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Into<B>,
    B: Resource<DynamicType = ()> + DeserializeOwned + Serialize + Into<A>,
{
    |object, wanted| {
        let versions = (A::api_version(&()), B::api_version(&()));
        let is = object["apiVersion"].as_str().unwrap_or_default();
        match (is == versions.0, wanted == versions.1) {
            (true, true) => convert::<A, B>(object),
            (false, false) if is == versions.1 && wanted == versions.0 => convert::<B, A>(object),
            _ if is == wanted => Ok(object),
            _ => Err(format!("there is no conversion from {is} to {wanted}")),
        }
    }
}

fn convert<F: DeserializeOwned + Into<T>, T: Serialize>(object: Value) -> Result<Value, String> {
    let from: F = serde_json::from_value(object).map_err(|error| error.to_string())?;
    serde_json::to_value(from.into()).map_err(|error| error.to_string())
}

fn read(body: &[u8]) -> Result<Request, Refusal> {
    let refuse = |why: String| Refusal(StatusCode::BAD_REQUEST, why);
    let review: Review =
        serde_json::from_slice(body).map_err(|error| refuse(format!("the body is no ConversionReview: {error}")))?;
    if review.api_version != API_VERSION || review.kind != "ConversionReview" {
        let is = format!("{}, Kind={}", review.api_version, review.kind);
        return Err(refuse(format!("the body is {is}, not {API_VERSION}, Kind=ConversionReview")));
    }
    Ok(review.request)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn asked(objects: Value) -> Value {
        let handler = converting(|mut object, wanted| match object["spec"].take() {
            Value::Null => Err(format!("nothing to convert to {wanted}")),
            spec => {
                object["spec"] = json!({"nested": spec});
                Ok(object)
            }
        });
        let body = json!({"apiVersion": API_VERSION, "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": "e.com/v2", "objects": objects}});
        let answer = handler(body.to_string().into()).await.unwrap();
        serde_json::from_slice::<Value>(&answer).unwrap()["response"].take()
    }

    #[tokio::test]
    async fn objects_come_back_in_order_in_the_version_that_is_wanted() {
        let answer = asked(json!([{"apiVersion": "e.com/v1", "spec": 1}, {"apiVersion": "e.com/v1", "spec": 2}])).await;
        assert_eq!((&answer["uid"], &answer["result"]["status"]), (&"u".into(), &"Success".into()));
        let object = |spec: u8| json!({"apiVersion": "e.com/v2", "spec": {"nested": spec}});
        assert_eq!(answer["convertedObjects"], json!([object(1), object(2)]));
    }

    #[tokio::test]
    async fn an_object_that_cannot_be_converted_is_told_to_the_client() {
        let answer = asked(json!([{"apiVersion": "e.com/v1"}])).await;
        assert_eq!(answer["result"], json!({"status": "Failure", "message": "nothing to convert to e.com/v2"}));
    }

    #[tokio::test]
    async fn what_is_no_question_is_refused() {
        let handler = converting(|object, _| Ok(object));
        for body in [
            "",
            "{}",
            r#"{"apiVersion": "v1", "kind": "Pod", "request": {"uid": "u", "desiredAPIVersion": "a", "objects": []}}"#,
        ] {
            assert_eq!(handler(body.into()).await.unwrap_err().0, StatusCode::BAD_REQUEST, "{body}");
        }
    }
}
