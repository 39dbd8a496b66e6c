//! What is packed comes back, and the dictionary stays small.

use super::*;

#[test]
fn whatever_is_packed_comes_back_byte_for_byte() {
    let mut dictionary = Dictionary::default();
    let texts = [
        r#"{}"#,
        r#"[]"#,
        r#"{"a":[],"b":{},"c":[[],{}],"d":[1,"x",{"e":null}]}"#,
        r#"{"n":[0,7,128,-1,1.5,1e9,18446744073709551615,99999999999999999999]}"#,
        r#"{"d":["0","00","12345","-1","99999999999999999999",""]}"#,
        r#"{"u":["6f1d0c9e-1b2a-4c3d-8e5f-0123456789ab","6F1D0C9E-1B2A-4C3D-8E5F-0123456789AB"]}"#,
        r#"{"t":["2026-11-16T04:05:29Z","2026-11-16T04:05:29.5Z","2026-11-16Td4:05:29Z","dddd-dd-ddTdd:dd:ddZ"]}"#,
        r#"{"s":["a \"quoted\" \\","ünï","\n",true,false,null],"s2":"a \"quoted\" \\"}"#,
    ];
    for _ in 0..3 {
        for text in texts {
            let packed = dictionary.pack(text.as_bytes()).unwrap();
            let back = String::from_utf8(dictionary.unpack(&packed).unwrap()).unwrap();
            assert_eq!(back, text);
        }
    }
}

#[test]
fn words_of_every_length_of_code_come_back() {
    let mut dictionary = Dictionary::default();
    let texts: Vec<String> = (0..6000).map(|n| format!(r#"{{"word-{n}":"value {n}"}}"#)).collect();
    for text in texts.iter().flat_map(|text| [text, text, text]) {
        let packed = dictionary.pack(text.as_bytes()).unwrap();
        assert_eq!(dictionary.unpack(&packed).as_deref(), Some(text.as_bytes()));
    }
    assert!(dictionary.words.len() > 11_000, "{}", dictionary.words.len());
    let last = dictionary.pack(texts[5999].as_bytes()).unwrap();
    assert!(last.len() < 12, "two words and two brackets: {}", last.len());
}

#[test]
fn names_that_never_come_again_do_not_fill_the_dictionary() {
    let mut dictionary = Dictionary::default();
    for n in 0..20_000u32 {
        dictionary.pack(format!(r#"{{"name":"pod-{n}"}}"#).as_bytes()).unwrap();
    }
    assert!(dictionary.words.len() < 10, "{}", dictionary.words.len());
}

#[test]
fn bytes_that_no_one_packed_are_refused() {
    let dictionary = Dictionary::default();
    for bytes in [&[tag::SHORT][..], &[tag::OBJECT_END], &[tag::STRING, 9], &[14], &[tag::WORD, 255, 255, 255]] {
        assert_eq!(dictionary.unpack(bytes), None, "{bytes:?}");
    }
    assert_eq!(Dictionary::default().pack(b"{\"open"), None);
}
