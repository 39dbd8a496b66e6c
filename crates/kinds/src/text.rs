//! Lists and objects as text, before they are decoded: where each object of a list stands, and who wrote it last.
//!
//! Managed fields are up to half of an object, and hardly anybody reads them. They are found here and cut out, so that the reader of
//! a kind never meets them:
//!
//! ```text
//! {"metadata":{"managedFields":[{"manager":"kubectl",…}],"name":"a"},"spec":…}
//! {"metadata":{"managedFields":null,"name":"a"},"spec":…}                        writer: kubectl
//! ```
//!
//! Values are skipped by their brackets and quotes alone: whether they are JSON is found when they are decoded.

use std::borrow::Cow;
use std::ops::Range;

use memchr::memchr2;
use serde::Deserialize;

/// A text that is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// Hands over the text of each object of a list, for as long as they are wanted. A list without `items` is none: nothing must pass for
/// an empty list that is not.
pub fn items<'a>(list: &'a str, mut tell: impl FnMut(&'a str) -> bool) -> Result<(), Malformed> {
    let mut reader = Reader { text: list, at: 0 };
    let mut are_there = false;
    reader.members(|reader, name| {
        if name != "items" || are_there {
            return reader.value().map(drop);
        }
        are_there = true;
        if reader.peek() == Some(b'n') {
            // What Go writes for a list that was never made.
            return if reader.value()? == "null" { Ok(()) } else { Err(Malformed) };
        }
        reader.elements(&mut tell)
    })?;
    reader.end()?;
    if are_there { Ok(()) } else { Err(Malformed) }
}

/// The text without managed fields, and who wrote the object last, as they tell.
pub fn without_managed_fields(object: &str) -> (Cow<'_, str>, Option<Cow<'_, str>>) {
    let Some(found) = managed_fields(object) else { return (Cow::Borrowed(object), None) };
    let writer = last_writer(&object[found.clone()]);
    let cut = [&object[..found.start], "null", &object[found.end..]].concat();
    (Cow::Owned(cut), writer)
}

/// Who wrote the object last: the manager of the newest managed fields; of several of one second, the last in the list.
pub fn writer(object: &str) -> Option<Cow<'_, str>> {
    last_writer(&object[managed_fields(object)?])
}

fn managed_fields(object: &str) -> Option<Range<usize>> {
    let mut found = None;
    let mut reader = Reader { text: object, at: 0 };
    // It ends as soon as they are found: what comes after them is not looked at.
    let _ = reader.members(|reader, name| {
        if name != "metadata" || reader.peek() != Some(b'{') {
            return reader.value().map(drop);
        }
        reader.members(|reader, name| {
            let start = reader.at;
            let value = reader.value()?;
            if name == "managedFields" {
                found = Some(start..start + value.len());
                return Err(Malformed);
            }
            Ok(())
        })
    });
    found
}

#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow, default)]
    manager: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    time: Option<Cow<'a, str>>,
}

fn last_writer(managed_fields: &str) -> Option<Cow<'_, str>> {
    let entries: Vec<Entry<'_>> = serde_json::from_str(managed_fields).ok()?;
    // Times are written in one form, which sorts as the times do.
    entries.into_iter().max_by(|one, other| one.time.cmp(&other.time))?.manager
}

/// Reads on from one value to the next.
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// The members of an object: each is to be read by the function, from its value on.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, &'a str) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let name = self.value()?;
            let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).ok_or(Malformed)?;
            self.expect(b':')?;
            self.space();
            member(self, name)?;
            if self.take(b'}') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    fn elements(&mut self, tell: &mut impl FnMut(&'a str) -> bool) -> Result<(), Malformed> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            if !tell(self.value()?) {
                return Err(Malformed);
            }
            if self.take(b']') {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// The next value, whatever it is.
    fn value(&mut self) -> Result<&'a str, Malformed> {
        self.space();
        let start = self.at;
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string()?,
            b'{' | b'[' => self.nested()?,
            _ => {
                let rest = &self.text.as_bytes()[start..];
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b':' | b' ' | b'\n' | b'\r' | b'\t');
                self.at += rest.iter().position(ends).unwrap_or(rest.len());
            }
        }
        // Every end is behind a byte of ASCII.
        self.text.get(start..self.at).filter(|value| !value.is_empty()).ok_or(Malformed)
    }

    fn nested(&mut self) -> Result<(), Malformed> {
        let bytes = self.text.as_bytes();
        let mut depth = 0usize;
        loop {
            match bytes.get(self.at).ok_or(Malformed)? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Goes behind a string that begins here.
    fn string(&mut self) -> Result<(), Malformed> {
        let bytes = self.text.as_bytes();
        self.at += 1;
        loop {
            self.at += memchr2(b'"', b'\\', bytes.get(self.at..).ok_or(Malformed)?).ok_or(Malformed)?;
            if bytes[self.at] == b'"' {
                self.at += 1;
                return Ok(());
            }
            self.at += 2;
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, byte: u8) -> Result<(), Malformed> {
        if self.take(byte) { Ok(()) } else { Err(Malformed) }
    }

    fn end(&mut self) -> Result<(), Malformed> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(Malformed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(list: &str) -> Result<Vec<&str>, Malformed> {
        let mut found = Vec::new();
        items(list, |item| {
            found.push(item);
            true
        })?;
        Ok(found)
    }

    #[test]
    fn all_objects_of_a_list_come_and_nothing_else_passes_for_an_empty_list() {
        assert_eq!(
            all(r#"{"metadata":{},"items":[{"a":"]}\"{"},{"b":[[]]}],"x":1}"#),
            Ok(vec![r#"{"a":"]}\"{"}"#, r#"{"b":[[]]}"#])
        );
        assert_eq!(all(r#" { "items" : [ ] } "#), Ok(vec![]));
        assert_eq!(all(r#"{"items":null}"#), Ok(vec![]));
        for text in [
            r#"{"kind":"Status"}"#,
            r#"{"items":{}}"#,
            r#"{"items":[{}"#,
            r#"{"items":[]} x"#,
            "[]",
            "",
            r#"{"items":nul}"#,
            "{\"items\":[{}\n",
        ] {
            assert_eq!(all(text), Err(Malformed), "{text}");
        }
    }

    #[test]
    fn managed_fields_are_cut_out_wherever_they_stand_and_nothing_else_is() {
        let fields = r#"[{"manager":"kubectl","time":"2026-11-16T04:05:29Z","fieldsV1":{"f:x":{}}},{"manager":"kubelet","time":"2026-11-16T04:05:30Z"},{"manager":"old"}]"#;
        let cases = [
            (
                format!(r#"{{"metadata":{{"managedFields":{fields},"name":"a"}},"spec":1}}"#),
                r#"{"metadata":{"managedFields":null,"name":"a"},"spec":1}"#,
            ),
            (
                format!(
                    r#"{{"spec":{{"metadata":{{"managedFields":[]}}}}, "metadata": {{ "managedFields" : {fields} }}}}"#
                ),
                r#"{"spec":{"metadata":{"managedFields":[]}}, "metadata": { "managedFields" : null }}"#,
            ),
        ];
        for (text, cut) in cases {
            assert_eq!(without_managed_fields(&text), (cut.into(), Some("kubelet".into())), "{text}");
        }
        for text in
            [r#"{"metadata":{"name":"managedFields"},"data":{"managedFields":"kept"}}"#, r#"{"metadata":7}"#, "{", "3"]
        {
            assert_eq!(without_managed_fields(text), (text.into(), None));
        }
    }

    #[test]
    fn of_several_writers_of_one_second_the_last_one_counts() {
        let text = r#"{"metadata":{"managedFields":[{"manager":"a","time":"2026-11-16T04:05:29Z"},{"manager":"b\"c","time":"2026-11-16T04:05:29Z"}]}}"#;
        assert_eq!(writer(text).as_deref(), Some("b\"c"));
    }
}
