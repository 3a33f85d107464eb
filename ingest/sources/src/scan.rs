//! Finds the ends of JSON values without parsing them.
//!
//! Only strings and brackets are followed: a value found here may still be invalid JSON, which the
//! server then refuses. Both agree on the end of an event and the beginning of the next one.

/// Offset of the end of the value that begins at `at`; `None` when the text ends before.
#[must_use]
pub fn value_end(json: &[u8], at: usize) -> Option<usize> {
    match json.get(at)? {
        b'"' => string_end(json, at + 1),
        b'{' | b'[' => container_end(json, at + 1),
        _ => scalar_end(json, at),
    }
}

/// Offset after the closing quote of the string whose first byte is at `at`.
#[must_use]
pub fn string_end(json: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // Eight bytes at a time: strings are most of an event.
        while let Some(Ok(word)) = json.get(at..at + 8).map(<[u8; 8]>::try_from) {
            let word = u64::from_le_bytes(word);
            let found = zero_bytes(word ^ QUOTES) | zero_bytes(word ^ BACKSLASHES);
            if found != 0 {
                at += found.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match json.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const QUOTES: u64 = ONES * b'"' as u64;
const BACKSLASHES: u64 = ONES * b'\\' as u64;

/// Sets the highest bit of the first byte that is zero, and perhaps of later bytes.
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & (ONES << 7)
}

/// Offset of the first byte from `at` on that is not white space; the end of the text if there is
/// none.
#[must_use]
pub fn blank_end(json: &[u8], mut at: usize) -> usize {
    while json
        .get(at)
        .is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
    {
        at += 1;
    }
    at
}

fn container_end(json: &[u8], mut at: usize) -> Option<usize> {
    let mut depth = 1_usize;
    loop {
        match json.get(at)? {
            b'"' => {
                at = string_end(json, at + 1)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Offset of the end of a scalar; `None` at the end of the text, which may be within a number.
fn scalar_end(json: &[u8], at: usize) -> Option<usize> {
    let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
    let length = json.get(at..)?.iter().position(ends)?;
    Some(at + length)
}

/// One member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Start of the name, after the quote.
    pub name_start: usize,
    /// End of the name, before the quote.
    pub name_end: usize,
    /// Start of the value.
    pub value_start: usize,
    /// End of the value.
    pub value_end: usize,
}

/// Iterates over the members of an object.
#[derive(Debug)]
pub struct Members<'a> {
    json: &'a [u8],
    at: usize,
    is_first: bool,
    end: Option<usize>,
}

impl<'a> Members<'a> {
    /// Starts at the object that begins at `at`; `None` when there is none.
    #[must_use]
    pub fn new(json: &'a [u8], at: usize) -> Option<Self> {
        (json.get(at) == Some(&b'{')).then_some(Self {
            json,
            at: at + 1,
            is_first: true,
            end: None,
        })
    }

    /// Offset after the object's closing brace, once all members were visited; `None` when the text
    /// is no object.
    #[must_use]
    pub fn end(&self) -> Option<usize> {
        self.end
    }
}

impl Iterator for Members<'_> {
    type Item = Member;

    fn next(&mut self) -> Option<Member> {
        let json = self.json;
        let mut at = blank_end(json, self.at);
        match json.get(at)? {
            b'}' if self.end.is_none() => {
                self.end = Some(at + 1);
                self.at = json.len();
                return None;
            }
            b',' if !self.is_first => at = blank_end(json, at + 1),
            _ if self.is_first => {}
            _ => return None,
        }
        self.is_first = false;
        if json.get(at) != Some(&b'"') {
            return None;
        }
        let name_end = string_end(json, at + 1)?;
        let colon = blank_end(json, name_end);
        if json.get(colon) != Some(&b':') {
            return None;
        }
        let value_start = blank_end(json, colon + 1);
        let value_end = value_end(json, value_start)?;
        self.at = value_end;
        Some(Member {
            name_start: at + 1,
            name_end: name_end - 1,
            value_start,
            value_end,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_value_is_found() {
        let table = [
            (r#"{"a":"}"} "#, Some(9)),
            (r#"{"a":[{"b":"\""}]},"#, Some(18)),
            (r#""a\\" "#, Some(5)),
            ("12,", Some(2)),
            ("12", None),
            ("true]", Some(4)),
            (r#"{"a":1"#, None),
            (r#""a\"#, None),
            ("", None),
        ];
        for (text, end) in table {
            assert_eq!(value_end(text.as_bytes(), 0), end, "{text}");
        }
    }

    #[test]
    fn a_string_ends_at_its_quote_at_every_alignment() {
        for before in 0..40 {
            for (middle, after) in [
                ("", ""),
                (r#"\""#, "x"),
                (r"\\", "\"\""),
                ("\u{e9}!", "0123456789"),
            ] {
                let text = format!("{}{middle}", "a".repeat(before));
                let all = format!("{text}\"{after}");
                assert_eq!(string_end(all.as_bytes(), 0), Some(text.len() + 1), "{all}");
                assert_eq!(string_end(text.as_bytes(), 0), None, "{text}");
            }
        }
    }

    #[test]
    fn members_have_names_and_values_and_the_object_an_end() {
        let text = r#"{ "a" : 1 , "b\"":{"c":[2]}, "d":"x" } "#;
        let mut members = Members::new(text.as_bytes(), 0).unwrap();
        let found: Vec<_> = members
            .by_ref()
            .map(|it| {
                let name = &text[it.name_start..it.name_end];
                (name, &text[it.value_start..it.value_end])
            })
            .collect();
        assert_eq!(
            found,
            [("a", "1"), (r#"b\""#, r#"{"c":[2]}"#), ("d", r#""x""#)]
        );
        assert_eq!(members.end(), Some(text.len() - 1));
        for broken in [
            r#"{"a":1"#,
            r#"{"a":1,}"#,
            r#"{"a" 1}"#,
            "{,}",
            "[]",
            r#"{a:1}"#,
            r#"{"a":1 "b":2}"#,
        ] {
            let end = Members::new(broken.as_bytes(), 0).and_then(|mut members| {
                members.by_ref().for_each(drop);
                members.end()
            });
            assert_eq!(end, None, "{broken}");
        }
    }
}
