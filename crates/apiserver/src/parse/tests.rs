//! What a text becomes, what is reported about it, and where its limits are.

use super::*;
use std::time::{Duration, Instant};

fn fields(parsed: &Parsed<'_>) -> Vec<String> {
    parsed.duplicates.messages()
}

#[test]
fn a_key_that_stands_twice_is_reported() {
    let parsed = json(br#"{"data":{"a":"1","a":"2"},"l":[{"x":1,"x":2}]}"#).unwrap();
    assert_eq!(fields(&parsed), [r#"duplicate field "data.a""#, r#"duplicate field "l[0].x""#]);
    assert_eq!(parsed.value["data"]["a"], "2");
}

#[test]
fn a_yaml_key_that_stands_twice_is_reported_with_its_line() {
    let parsed = yaml(b"\nspec:\n  foo: a\n  b: 1\n  foo: c\n1: x\n").unwrap();
    assert_eq!(fields(&parsed), [r#"line 5: key "foo" already set in map"#]);
    assert_eq!(parsed.duplicates.errors(), ["yaml: unmarshal errors:\n  line 5: key \"foo\" already set in map"]);
    assert_eq!(parsed.value, serde_json::json!({"spec": {"foo": "c", "b": 1}, "1": "x"}));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test is about how long it takes")]
fn duplicate_keys_deep_below_long_keys_cost_no_more_than_the_body() {
    let deep =
        format!("{}{}{}", format!("{{\"{}\":", "k".repeat(1000)).repeat(90), "{\"a\":1", ",\"a\":1".repeat(200_000));
    let body = format!("{deep}}}{}", "}".repeat(90));
    let started = Instant::now();
    let parsed = json(body.as_bytes()).unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "took {:?}", started.elapsed());
    let shown: usize = fields(&parsed).iter().map(String::len).sum();
    assert!(shown < 2048, "the messages are {shown} bytes");
}

#[test]
fn deep_nesting_is_refused_in_both_notations() {
    let nested = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let blocks = |depth: usize| {
        let lines: Vec<String> = (0..depth).map(|level| format!("{}a:", " ".repeat(level))).collect();
        format!("{} 1", lines.join("\n"))
    };
    for depth in [MAX_STORED_NESTING + 1, 127, 128, 200, 20_000] {
        assert!(json(nested(depth).as_bytes()).err().unwrap().to_string().contains("depth") || depth >= 127);
        assert!(json("[".repeat(depth).as_bytes()).is_err());
        assert!(yaml(nested(depth).as_bytes()).is_err(), "{depth}");
    }
    assert!(yaml(blocks(MAX_STORED_NESTING + 1).as_bytes()).is_err());
    for text in [nested(MAX_STORED_NESTING), blocks(MAX_STORED_NESTING)] {
        yaml(text.as_bytes()).unwrap();
    }
    json(nested(MAX_STORED_NESTING).as_bytes()).unwrap();
}

#[test]
fn aliases_cannot_make_a_small_text_large() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let below = format!("*a{}, ", level - 1).repeat(10);
        bomb.push_str(&format!("a{level}: &a{level} [{below}]\n"));
    }
    assert!(yaml(bomb.as_bytes()).is_err());
    let long = format!("a: &a {}\nb: [{}]\n", "x".repeat(1 << 20), "*a, ".repeat(64));
    assert!(yaml(long.as_bytes()).is_err());
    let few = yaml(b"a: &a {x: 1}\nb: *a\n").unwrap();
    assert_eq!(few.value, serde_json::json!({"a": {"x": 1}, "b": {"x": 1}}));
}

#[test]
fn findings_come_in_the_order_of_the_document() {
    let text = br#"{"z":1,"spec":{"unknown":{"q":1,"q":2},"replicas":1,"replicas":2,"a":0},"b":3}"#;
    let finding = |problem, path: &str| Finding { problem, path: path.to_owned() };
    let found = vec![
        finding(Problem::Duplicate, "spec.unknown.q"),
        finding(Problem::Duplicate, "spec.replicas"),
        finding(Problem::Unknown, "b"),
        finding(Problem::Unknown, "spec.unknown"),
        finding(Problem::Unknown, "z"),
    ];
    let shown: Vec<String> = in_document_order(text, found).iter().map(ToString::to_string).collect();
    let wanted = [
        r#"unknown field "z""#,
        r#"unknown field "spec.unknown""#,
        r#"duplicate field "spec.replicas""#,
        r#"unknown field "b""#,
    ];
    assert_eq!(shown, wanted);
}
