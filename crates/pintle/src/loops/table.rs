//! `pintle loops`: a table of loops with what they have to do and what goes wrong, and who never rests.

use crate::kubeconfig::{ClusterFlags, NoWay};
use crate::say;
use kube::Client;
use serde_json::Value;
use std::fmt::Write;

const PATH: &str = "/debug/pintle/loops";
const HEADINGS: [&str; 8] =
    ["LOOP", "READY", "WAITING", "WORKING", "PER MINUTE", "RETRIES", "FAILING", "LONGEST RUNNING"];

#[derive(clap::Args)]
pub(crate) struct Flags {
    #[command(flatten)]
    cluster: ClusterFlags,
    /// What to print.
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    Text,
    Json,
}

/// Why there is no answer, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("the server does not tell what its loops do: {0} is not a Pintle, or an older one")]
    NoLoops(String),
    #[error("{0}; loops are shown to administrators, and to users whose role allows `get` on {PATH}")]
    Forbidden(String),
    #[error("{0}")]
    NoWay(#[from] NoWay),
    #[error("the server cannot be asked: {0}")]
    Server(#[from] kube::Error),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
}

pub(crate) fn run(flags: &Flags) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let answer = runtime.block_on(ask(flags))?;
    say::text(&match flags.output {
        Output::Json => format!("{answer:#}\n"),
        Output::Text => tell(&answer),
    });
    Ok(())
}

async fn ask(flags: &Flags) -> Result<Value, Failure> {
    let config = flags.cluster.config().await?;
    let server = config.cluster_url.to_string();
    let request = http::Request::get(PATH).body(Vec::new()).map_err(kube::Error::HttpError)?;
    Client::try_from(config)?.request(request).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => Failure::NoLoops(server.trim_end_matches('/').to_owned()),
        kube::Error::Api(status) if status.code == 403 => Failure::Forbidden(status.message.clone()),
        other => Failure::Server(other),
    })
}

/// The whole answer in words.
fn tell(answer: &Value) -> String {
    let loops = list(&answer["loops"]);
    if loops.is_empty() {
        return "no loops run in this server's process\n".to_owned();
    }
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(loops.iter().map(row));
    let mut out = aligned(&rows);
    for failing in loops.iter().filter(|one| one["failing"]["count"].as_u64() != Some(0)) {
        for key in list(&failing["failing"]["keys"]) {
            // Writing into a String cannot fail.
            let _ = write!(
                out,
                "\n{} has failed {} times in a row for {}: {}",
                text(&failing["name"]),
                key["failures"],
                text(&key["key"]),
                text(&key["error"])
            );
        }
    }
    for hot in list(&answer["hot"]) {
        let place = [text(&hot["namespace"]), text(&hot["name"])].into_iter().filter(|part| !part.is_empty());
        let place = place.collect::<Vec<_>>().join("/");
        let (writer, kind) = (text(&hot["writer"]), text(&hot["kind"]));
        let _ = write!(out, "\n{writer} wrote {kind} {place} {} times in {} s", hot["writes"], hot["seconds"]);
        let fields: Vec<String> = list(&hot["fields"])
            .iter()
            .map(|field| format!("{} ({} ×)", text(&field["path"]), field["changes"]))
            .collect();
        if !fields.is_empty() {
            let _ = write!(out, "; it keeps changing {}", fields.join(", "));
        }
    }
    out.trim_end().to_owned() + "\n"
}

fn row(one: &Value) -> [String; 8] {
    let number = |key: &str| one[key].to_string();
    let longest = match one["longestRunning"]["seconds"].as_f64() {
        Some(seconds) => format!("{} ({seconds:.1} s)", text(&one["longestRunning"]["key"])),
        None => "-".to_owned(),
    };
    let failing = one["failing"]["count"].to_string();
    [
        text(&one["name"]).to_owned(),
        number("depth"),
        number("delayed"),
        number("working"),
        number("perMinute"),
        number("retries"),
        failing,
        longest,
    ]
}

fn aligned(rows: &[[String; 8]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..8).map(width).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        out.push_str(cells.join("   ").trim_end());
        out.push('\n');
    }
    out
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_loop_that_fails_and_one_that_never_rests_are_named() {
        let deployment = json!({"name": "deployment", "depth": 0, "delayed": 3, "working": 1, "perMinute": 12, "retries": 5,
            "longestRunning": {"key": "shop/web", "seconds": 2.25},
            "failing": {"count": 1, "keys": [{"key": "shop/web", "failures": 4, "error": "quota exceeded"}]}});
        let idle = json!({"name": "podgc", "depth": 0, "delayed": 0, "working": 0, "perMinute": 0, "retries": 0,
            "longestRunning": null, "failing": {"count": 0, "keys": []}});
        let hot = json!({"writer": "gitops", "kind": "Deployment", "namespace": "shop", "name": "web", "writes": 40,
            "seconds": 60, "fields": [{"path": "spec.replicas", "changes": 40}]});
        let told = tell(&json!({"loops": [deployment, idle], "hot": [hot]}));
        let expected = "\
LOOP         READY   WAITING   WORKING   PER MINUTE   RETRIES   FAILING   LONGEST RUNNING
deployment   0       3         1         12           5         1         shop/web (2.2 s)
podgc        0       0         0         0            0         0         -

deployment has failed 4 times in a row for shop/web: quota exceeded
gitops wrote Deployment shop/web 40 times in 60 s; it keeps changing spec.replicas (40 ×)
";
        assert_eq!(told, expected);
        assert_eq!(tell(&json!({"loops": [], "hot": []})), "no loops run in this server's process\n");
    }
}
