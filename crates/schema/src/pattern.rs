//! Regular expressions as definitions write them: in the syntax of Go, which is not quite that of Rust.
//!
//! A pattern is read by Go's rules, refused in Go's words, and written anew: `\d`, `\w`, `\s` and `\b` are of ASCII, a brace
//! that begins no repetition is a brace, and nothing inside of a class but ranges has a meaning.

use regex::{Regex, RegexBuilder};

/// A pattern that compiles to more than this is refused: a definition must not cost the server its memory.
const LARGEST_COMPILED_BYTES: usize = 1 << 20;
/// A repetition of more is refused.
const MAX_REPETITIONS: u32 = 1000;

pub fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = Reader { pattern, rest: pattern, out: String::new(), open: 0, last: Last::Nothing }.read();
    let translated = translated.map_err(|error| format!("error parsing regexp: {error}"))?;
    RegexBuilder::new(&translated).size_limit(LARGEST_COMPILED_BYTES).build().map_err(|error| error.to_string())
}

/// What stands before the place where the reader is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// Nothing that could be repeated.
    Nothing,
    Item,
    Repetition,
}

struct Reader<'a> {
    pattern: &'a str,
    rest: &'a str,
    out: String,
    open: usize,
    last: Last,
}

const DIGITS: &str = "0-9";
const SPACES: &str = r"\t\n\x0C\r ";
const WORDS: &str = "0-9A-Za-z_";
const POSIX: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

impl<'a> Reader<'a> {
    fn read(mut self) -> Result<String, String> {
        while let Some(c) = self.next() {
            match c {
                '(' => self.group()?,
                ')' => {
                    self.open = self.open.checked_sub(1).ok_or_else(|| told("unexpected )", self.pattern))?;
                    self.item(")");
                }
                '|' => {
                    self.out.push('|');
                    self.last = Last::Nothing;
                }
                '[' => self.class()?,
                '.' | '^' | '$' => self.item(c.encode_utf8(&mut [0; 4])),
                '*' | '+' | '?' => self.repeat(c.encode_utf8(&mut [0; 4]))?,
                '{' => match self.bounds()? {
                    Some(bounds) => self.repeat(&bounds)?,
                    None => self.item(r"\{"),
                },
                '\\' => self.escape()?,
                c => self.literal(c),
            }
        }
        if self.open > 0 {
            return Err(told("missing closing )", self.pattern));
        }
        Ok(self.out)
    }

    fn next(&mut self) -> Option<char> {
        let mut rest = self.rest.chars();
        let c = rest.next()?;
        self.rest = rest.as_str();
        Some(c)
    }

    fn skip(&mut self, start: &str) -> bool {
        match self.rest.strip_prefix(start) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn item(&mut self, text: &str) {
        self.out.push_str(text);
        self.last = Last::Item;
    }

    fn literal(&mut self, c: char) {
        self.item(&regex::escape(c.encode_utf8(&mut [0; 4])));
    }

    fn group(&mut self) -> Result<(), String> {
        let before = self.rest;
        if self.skip("?P<") || self.skip("?<") {
            let Some((name, rest)) = self.rest.split_once('>') else {
                return Err(told("invalid named capture", &format!("({before}")));
            };
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                return Err(told("invalid named capture", &format!("({}>", &before[..before.len() - rest.len() - 1])));
            }
            self.rest = rest;
        } else if self.skip("?") {
            return self.flags(before);
        }
        self.out.push('(');
        self.open += 1;
        self.last = Last::Nothing;
        Ok(())
    }

    /// `(?i)` and `(?i:`.
    fn flags(&mut self, before: &str) -> Result<(), String> {
        let mut flags = String::new();
        let (mut said, mut negated) = (false, false);
        while let Some(c) = self.next() {
            match c {
                'i' | 'm' | 's' | 'U' => said = true,
                '-' if !negated => (negated, said) = (true, false),
                ':' | ')' if said || !negated => {
                    if c == ':' {
                        self.open += 1;
                        self.out.push_str(&format!("(?{flags}:"));
                        self.last = Last::Nothing;
                    } else if !flags.is_empty() {
                        self.out.push_str(&format!("(?{flags})"));
                    }
                    return Ok(());
                }
                _ => {
                    let read = &before[..before.len() - self.rest.len()];
                    return Err(told("invalid or unsupported Perl syntax", &format!("({read}")));
                }
            }
            flags.push(c);
        }
        Err(told("missing closing )", self.pattern))
    }

    /// `{2}`, `{2,}` or `{2,4}`; anything else is a brace.
    fn bounds(&mut self) -> Result<Option<String>, String> {
        // No further than the numbers: a pattern of braces must not be searched from each of them.
        let length = self.rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b',').count();
        let (inside, rest) = self.rest.split_at(length);
        let Some(rest) = rest.strip_prefix('}') else { return Ok(None) };
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            (digits && (text == "0" || !text.starts_with('0'))).then(|| text.parse::<u32>().unwrap_or(u32::MAX))
        };
        let (least, most) = match inside.split_once(',') {
            None => (number(inside), number(inside)),
            Some((least, "")) => (number(least), number(least)),
            Some((least, most)) => (number(least), number(most)),
        };
        let (Some(least), Some(most)) = (least, most) else { return Ok(None) };
        if most > MAX_REPETITIONS || least > most {
            return Err(told("invalid repeat count", &format!("{{{inside}}}")));
        }
        self.rest = rest;
        Ok(Some(format!("{{{inside}}}")))
    }

    fn repeat(&mut self, operator: &str) -> Result<(), String> {
        match self.last {
            Last::Nothing => return Err(told("missing argument to repetition operator", operator)),
            Last::Repetition => return Err(told("invalid nested repetition operator", operator)),
            Last::Item => {}
        }
        self.out.push_str(operator);
        if self.skip("?") {
            self.out.push('?');
        }
        self.last = Last::Repetition;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        if self.skip("Q") {
            let (quoted, rest) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
            quoted.chars().for_each(|c| self.literal(c));
            self.rest = rest;
            return Ok(());
        }
        if let Some(class) = self.perl_class()? {
            self.item(&format!("[{class}]"));
            return Ok(());
        }
        for (letter, written) in [("A", r"\A"), ("z", r"\z"), ("b", r"(?-u:\b)"), ("B", r"\B")] {
            if self.skip(letter) {
                self.item(written);
                return Ok(());
            }
        }
        let c = self.escaped()?;
        self.literal(c);
        Ok(())
    }

    /// What `\d`, `\W` or `\pL` mean inside of a class.
    fn perl_class(&mut self) -> Result<Option<String>, String> {
        let before = self.rest;
        let Some(letter) = self.next() else { return Ok(None) };
        let ranges = match letter.to_ascii_lowercase() {
            'd' => DIGITS,
            's' => SPACES,
            'w' => WORDS,
            'p' => {
                let name = match self.next() {
                    Some('{') => match self.rest.split_once('}') {
                        Some((name, rest)) => {
                            self.rest = rest;
                            name.to_owned()
                        }
                        None => return Err(told("invalid character class range", &format!("\\{before}"))),
                    },
                    Some(name) => name.to_string(),
                    None => return Err(told("invalid character class range", &format!("\\{before}"))),
                };
                return Ok(Some(format!("\\{letter}{{{name}}}")));
            }
            _ => {
                self.rest = before;
                return Ok(None);
            }
        };
        Ok(Some(if letter.is_ascii_uppercase() { format!("[^{ranges}]") } else { ranges.to_owned() }))
    }

    /// A character behind a backslash.
    fn escaped(&mut self) -> Result<char, String> {
        let before = self.rest;
        let Some(c) = self.next() else { return Err(told("trailing backslash at end of expression", "")) };
        let found = match c {
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            'x' => self.hexadecimal(),
            '0' => self.octal(0),
            // One digit alone would refer back to a group, which takes more than time that is linear.
            '1'..='7' if self.rest.starts_with(|c| matches!(c, '0'..='7')) => self.octal(c.to_digit(8).unwrap_or(0)),
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c),
            _ => None,
        };
        let read = &before[..before.len() - self.rest.len()];
        found.ok_or_else(|| told("invalid escape sequence", &format!("\\{read}")))
    }

    fn hexadecimal(&mut self) -> Option<char> {
        let digits = if self.skip("{") {
            let (digits, rest) = self.rest.split_once('}')?;
            self.rest = rest;
            digits
        } else {
            let (digits, rest) = self.rest.split_at_checked(2)?;
            self.rest = rest;
            digits
        };
        let sound = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        sound.then(|| u32::from_str_radix(digits, 16).ok()).flatten().and_then(char::from_u32)
    }

    /// At most three digits, the first of which is read.
    fn octal(&mut self, first: u32) -> Option<char> {
        let mut value = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            value = value * 8 + digit;
            self.next();
        }
        char::from_u32(value)
    }

    fn class(&mut self) -> Result<(), String> {
        let before = self.rest;
        let unclosed = || told("missing closing ]", &format!("[{before}"));
        let mut class = String::from(if self.skip("^") { "[^" } else { "[" });
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some((name, rest)) = self.rest.strip_prefix("[:").and_then(posix_name) {
                if !POSIX.contains(&name.strip_prefix('^').unwrap_or(name)) {
                    return Err(told("invalid character class range", &format!("[:{name}:]")));
                }
                class.push_str(&format!("[:{name}:]"));
                self.rest = rest;
                continue;
            }
            let start = self.rest;
            if self.skip("\\") {
                if let Some(ranges) = self.perl_class()? {
                    class.push_str(&ranges);
                    continue;
                }
                self.rest = start;
            }
            let low = self.class_character().ok_or_else(unclosed)??;
            let mut high = low;
            if self.rest.starts_with('-') && !self.rest.starts_with("-]") {
                self.skip("-");
                high = self.class_character().ok_or_else(unclosed)??;
                if high < low {
                    let range = &start[..start.len() - self.rest.len()];
                    return Err(told("invalid character class range", range));
                }
            }
            class.push_str(&format!("\\x{{{:X}}}-\\x{{{:X}}}", u32::from(low), u32::from(high)));
        }
        self.skip("]");
        class.push(']');
        self.item(&class);
        Ok(())
    }

    fn class_character(&mut self) -> Option<Result<char, String>> {
        match self.next()? {
            '\\' => Some(self.escaped()),
            c => Some(Ok(c)),
        }
    }
}

/// The name before the next `:]`, and what follows. Nothing that is longer than any name.
fn posix_name(text: &str) -> Option<(&str, &str)> {
    const LONGEST: usize = 16;
    let end = text.as_bytes().windows(2).take(LONGEST).position(|pair| pair == b":]")?;
    Some((text.get(..end)?, text.get(end + 2..)?))
}

fn told(problem: &str, text: &str) -> String {
    format!("{problem}: `{text}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_go() {
        let cases: &[(&str, &[&str], &[&str])] = &[
            (r"^\d+$", &["12"], &["", "a", "٣"]),
            (r"^\w{1,3}$", &["a_1"], &["é", "abcd"]),
            (r"^[\w.-]+$", &["a.b-c"], &["a b"]),
            (r"^\S+\s$", &["a "], &["a\u{a0}"]),
            (r"^a{$", &["a{"], &["a"]),
            (r"^a{,2}$", &["a{,2}"], &["aa"]),
            (r"^a{2,}$", &["aaa"], &["a"]),
            (r"^[[]$", &["["], &["]"]),
            (r"^[]a]$", &["]", "a"], &["b"]),
            (r"^[a&&b]+$", &["a&b"], &["c"]),
            (r"^[+--]+$", &["+,-"], &["a"]),
            (r"^[a-z0-9-]+$", &["a-1"], &["A"]),
            (r"^[^/]+$", &["a\nb"], &["a/b"]),
            (r"^[[:alpha:]]+$", &["aB"], &["1"]),
            (r"^\Qa.b\E$", &["a.b"], &["axb"]),
            (r"^\<a\/\-$", &["<a/-"], &["a/-"]),
            (r"^(?P<year>\d{4})-(?:a|b)$", &["2026-a"], &["2026-c"]),
            (r"(?i)^abc$", &["ABC"], &["ab"]),
            (r"^(?i:a)b$", &["Ab"], &["AB"]),
            (r"^\x41\x{42}\103$", &["ABC"], &["abc"]),
            (r"^\pL+$", &["é"], &["1"]),
            (r"\ba\b", &["a b", "éa"], &["ab"]),
            (r"^a$", &["a"], &["a\n"]),
            ("^$|^a*?$", &["", "aa"], &["b"]),
        ];
        for (pattern, good, bad) in cases {
            let regex = compile(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            for text in *good {
                assert!(regex.is_match(text), "{pattern} {text:?}");
            }
            for text in *bad {
                assert!(!regex.is_match(text), "{pattern} {text:?}");
            }
        }
    }

    #[test]
    fn what_go_refuses_is_refused_in_its_words() {
        for (pattern, message) in [
            ("(", "missing closing ): `(`"),
            ("a)", "unexpected ): `a)`"),
            ("[a", "missing closing ]: `[a`"),
            ("[b-a]", "invalid character class range: `b-a`"),
            ("*a", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `*`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?!a)", "invalid or unsupported Perl syntax: `(?!`"),
            (r"\8", r"invalid escape sequence: `\8`"),
            (r"(a)\1", r"invalid escape sequence: `\1`"),
            ("a\\", "trailing backslash at end of expression: ``"),
        ] {
            assert_eq!(compile(pattern).err(), Some(format!("error parsing regexp: {message}")), "{pattern}");
        }
        // What is not closed is looked for once.
        assert!(compile(&"{".repeat(300_000)).is_err(), "too large to carry");
        assert!(compile(&format!("[{}", "[:".repeat(300_000))).is_err());
        assert!(compile(&format!("({}){{1000}}", r"\pL".repeat(1000))).is_err(), "too large to carry");
    }
}
