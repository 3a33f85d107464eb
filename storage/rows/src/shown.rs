//! Escapes control characters in foreign texts, so that terminals, logs and mails may show them:
//! their authors must not move the cursor, forge a line, clear the screen, change the direction of
//! the text beside, or hide the difference between two names.

use std::borrow::Cow;
use std::fmt::Write;

/// [`is_control`] as a class of a regular expression, in the spelling that Rust and JSON Schema
/// share; without [`TAG_CLASS`], since not all readers of JSON Schema know characters beyond the
/// first 65 536.
pub const CONTROL_CLASS: &str = r"\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb";
/// The rest of [`is_control`], for Rust's regular expressions.
pub const TAG_CLASS: &str = r"\u{e0000}-\u{e007f}";

/// Returns true for control and invisible characters: C0, DEL and C1, the separators of lines and
/// paragraphs, the marks, embeddings, overrides and isolates that change the direction of text,
/// spaces without width, soft hyphens, tags. The joiners U+200C and U+200D are allowed: Persian and
/// Indic names need them, and emoji.
#[must_use]
pub const fn is_control(c: char) -> bool {
    matches!(
        c,
        '\0'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// Escapes each control character as `\u{…}`; the result is one line.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, is_control, |c, out| out.extend(c.escape_unicode()))
}

/// Escapes like [`shown`], but keeps line feeds: for texts of ours with foreign ones in them.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    let is_other = |c| c != '\n' && is_control(c);
    replaced(text, is_other, |c, out| out.extend(c.escape_unicode()))
}

/// Escapes control characters in JSON by JSON's own escapes, which does not change its meaning;
/// line feeds, which are between values only, stay.
#[must_use]
pub fn shown_json(json: &str) -> Cow<'_, str> {
    let is_other = |c| c != '\n' && is_control(c);
    replaced(json, is_other, |c, out| match c {
        // White space between values: within texts these are escaped.
        '\t' | '\r' => out.push(' '),
        // Writing to a String cannot fail.
        c => {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    })
}

fn replaced(
    text: &str,
    is_replaced: impl Fn(char) -> bool,
    replace: impl Fn(char, &mut String),
) -> Cow<'_, str> {
    if !text.contains(&is_replaced) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_replaced(c) {
            replace(c, &mut out);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text with one control character of each kind.
    const HOSTILE: &str = "a\u{1b}[2J\r\n\t\u{7f}\u{9b}1m\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{ad}\u{200b}\u{feff}\u{e0041}z";

    #[test]
    fn controls_are_escaped_and_all_else_stays() {
        let escaped = r"a\u{1b}[2J\u{d}\u{a}\u{9}\u{7f}\u{9b}1m\u{202e}\u{2066}\u{200f}\u{61c}\u{2028}\u{ad}\u{200b}\u{feff}\u{e0041}z";
        assert_eq!(shown(HOSTILE), escaped);
        assert_eq!(shown_lines("a\nb\r"), "a\nb\\u{d}");
        for plain in [
            "",
            "Grüße 東京 שלום 👩‍💻 ❤️ \u{a0}",
            "می\u{200c}خواهم क्\u{200d}ष",
            r"\u{1b}",
        ] {
            assert!(matches!(shown(plain), Cow::Borrowed(same) if same == plain));
        }
    }

    #[test]
    fn escaped_json_keeps_its_meaning() {
        let text = "a\u{7f}\u{9b}\u{202e}\u{2028}\u{e0041}";
        let json = format!("{{\r\n\t\"{text}\": 1}}");
        let escaped = r#"{ 
 "a\u007f\u009b\u202e\u2028\udb40\udc41": 1}"#;
        assert_eq!(shown_json(&json), escaped);
    }

    #[test]
    fn escaped_text_has_no_control_characters() {
        let all = (0..=0x10_ffff).filter_map(char::from_u32);
        for c in all.filter(|c| is_control(*c)) {
            let text = c.to_string();
            for shown in [shown(&text), shown_json(&text)] {
                assert!(c == '\n' || !shown.contains(is_control), "{c:?}");
            }
        }
    }
}
