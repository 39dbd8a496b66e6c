//! What is packed comes back, and the dictionary stays small.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;

use super::*;

fn pack(dictionary: &mut Dictionary, object: &impl Serialize) -> Option<Box<[u8]>> {
    let mut packer = Packer::packing(dictionary);
    object.serialize(&mut packer).ok()?;
    Some(packer.packed())
}

/// What JSON becomes of an object on the way through its packed form.
fn again(dictionary: &mut Dictionary, object: &impl Serialize) -> String {
    let packed = pack(dictionary, object).unwrap();
    String::from_utf8(dictionary.unpack(&packed).unwrap()).unwrap()
}

#[test]
fn whatever_is_packed_comes_back_byte_for_byte() {
    let mut dictionary = Dictionary::default();
    let texts = [
        r#"{}"#,
        r#"[]"#,
        r#"{"a":[],"b":{},"c":[[],{}],"d":[1,"x",{"e":null}]}"#,
        r#"{"n":[0,7,128,-1,1.5,-0.25,18446744073709551615,-9223372036854775808]}"#,
        r#"{"d":["0","00","12345","-1","99999999999999999999",""]}"#,
        r#"{"u":["6f1d0c9e-1b2a-4c3d-8e5f-0123456789ab","6F1D0C9E-1B2A-4C3D-8E5F-0123456789AB"]}"#,
        r#"{"t":["2026-11-16T04:05:29Z","2026-11-16T04:05:29.5Z","2026-11-16Td4:05:29Z","dddd-dd-ddTdd:dd:ddZ"]}"#,
        r#"{"s":["a \"quoted\" \\","ünï","\n",true,false,null],"s2":"a \"quoted\" \\"}"#,
    ];
    for _ in 0..3 {
        for text in texts {
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(again(&mut dictionary, &value), text);
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Odd<'a> {
    name: &'a str,
    letter: char,
    nothing: (),
    absent: Option<u8>,
    pair: (i16, f32),
    bytes: &'a [u8],
    kinds: Vec<Kind>,
    by_number: BTreeMap<i32, bool>,
    by_truth: BTreeMap<bool, f64>,
    by_kind: BTreeMap<char, Kind>,
}

#[derive(Serialize, Clone)]
enum Kind {
    Plain,
    One(u64),
    Two(u8, &'static str),
    Named { deep: f64 },
}

#[test]
fn every_shape_that_can_be_json_is_the_json_that_it_was() {
    let kinds = [Kind::Plain, Kind::One(7), Kind::Two(1, "2026-11-16T04:05:29Z"), Kind::Named { deep: f64::NAN }];
    let odd = Odd {
        name: "tab\t, \"quote\", \u{1}",
        letter: '"',
        nothing: (),
        absent: None,
        pair: (-3, 0.1),
        bytes: b"ab",
        kinds: kinds.to_vec(),
        by_number: BTreeMap::from([(-1, true), (12, false)]),
        by_truth: BTreeMap::from([(true, 1e300), (false, -0.0)]),
        by_kind: BTreeMap::from([('x', Kind::Plain)]),
    };
    let mut dictionary = Dictionary::default();
    for _ in 0..3 {
        assert_eq!(again(&mut dictionary, &odd), serde_json::to_string(&odd).unwrap());
    }
    let (expected, mut counter) = (serde_json::to_string(&odd).unwrap().len(), Packer::counting());
    odd.serialize(&mut counter).unwrap();
    assert!(counter.json().abs_diff(expected) < expected / 4, "{} of {expected}", counter.json());
}

#[test]
fn what_cannot_be_taken_apart_is_refused_and_not_mistaken() {
    let raw = RawValue::from_string("{\"a\": 1}".into()).unwrap();
    assert_eq!(pack(&mut Dictionary::default(), &raw), None);
    assert_eq!(pack(&mut Dictionary::default(), &BTreeMap::from([(vec![1], 1)])), None);
    assert_eq!(pack(&mut Dictionary::default(), &BTreeMap::from([((), 1)])), None);
}

#[test]
fn words_of_every_length_of_code_come_back() {
    let mut dictionary = Dictionary::default();
    let objects: Vec<_> = (0..6000).map(|n| BTreeMap::from([(format!("word-{n}"), format!("value {n}"))])).collect();
    for object in objects.iter().flat_map(|object| [object, object, object]) {
        assert_eq!(again(&mut dictionary, object), serde_json::to_string(object).unwrap());
    }
    assert!(dictionary.words.len() > 11_000, "{}", dictionary.words.len());
    let last = pack(&mut dictionary, &objects[5999]).unwrap();
    assert!(last.len() < 12, "two words and two brackets: {}", last.len());
}

#[test]
fn a_string_is_told_from_one_that_looks_like_it_with_its_escapes() {
    let mut dictionary = Dictionary::default();
    for string in ["a \"b\"", r#"a \"b\""#, r#"a \\\"b\\\""#, "tab\t", r"tab\t"].iter().cycle().take(25) {
        assert_eq!(again(&mut dictionary, string), serde_json::to_string(string).unwrap());
    }
}

#[test]
fn names_that_never_come_again_do_not_fill_the_dictionary() {
    let mut dictionary = Dictionary::default();
    for n in 0..20_000u32 {
        pack(&mut dictionary, &BTreeMap::from([("name", format!("pod-{n}"))])).unwrap();
    }
    assert!(dictionary.words.len() < 10, "{}", dictionary.words.len());
}

#[test]
fn bytes_that_no_one_packed_are_refused() {
    let dictionary = Dictionary::default();
    for bytes in [&[tag::SHORT][..], &[tag::OBJECT_END], &[tag::STRING, 9], &[14], &[tag::WORD, 255, 255, 255]] {
        assert_eq!(dictionary.unpack(bytes), None, "{bytes:?}");
    }
}
