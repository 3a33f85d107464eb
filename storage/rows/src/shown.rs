//! Texts of others as terminals, logs and mails may show them: whoever wrote them must not move the cursor,
//! forge a line, clear the screen, turn the direction of what stands beside, or hide what makes two names differ.

use std::borrow::Cow;
use std::fmt::Write;

/// [`is_control`] as a class of a regular expression, in the spelling that both Rust's and JSON Schema's have; but
/// for [`TAG_CLASS`], as not all that read JSON Schema know characters beyond the first 65 536.
pub const CONTROL_CLASS: &str = r"\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb";
/// The rest of [`is_control`], for Rust's regular expressions.
pub const TAG_CLASS: &str = r"\u{e0000}-\u{e007f}";

/// Tells characters that are instructions, or nothing that is seen: C0, DEL and C1, the separators of lines and
/// paragraphs, the marks, embeddings, overrides and isolates that change the direction of text, spaces without
/// width, soft hyphens, tags. The joiners U+200C and U+200D are none: Persian and Indic names need them, and emoji.
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

/// A text in one line, with `\u{…}` in place of each control.
#[must_use]
pub fn shown(text: &str) -> Cow<'_, str> {
    replaced(text, is_control, |c, out| out.extend(c.escape_unicode()))
}

/// A text of ours with those of others in it: as [`shown`], but line feeds stay.
#[must_use]
pub fn shown_lines(text: &str) -> Cow<'_, str> {
    let is_other = |c| c != '\n' && is_control(c);
    replaced(text, is_other, |c, out| out.extend(c.escape_unicode()))
}

/// JSON that means the same, with JSON's own escapes in place of controls; line feeds, which are between its
/// values only, stay.
#[must_use]
pub fn shown_json(json: &str) -> Cow<'_, str> {
    let is_other = |c| c != '\n' && is_control(c);
    replaced(json, is_other, |c, out| match c {
        // White space between values: within texts these are escaped.
        '\t' | '\r' => out.push(' '),
        // A String takes all that is written.
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

    /// One of each kind.
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
    fn json_means_the_same() {
        let text = "a\u{7f}\u{9b}\u{202e}\u{2028}\u{e0041}";
        let json = format!("{{\r\n\t\"{text}\": 1}}");
        let escaped = r#"{ 
 "a\u007f\u009b\u202e\u2028\udb40\udc41": 1}"#;
        assert_eq!(shown_json(&json), escaped);
    }

    #[test]
    fn what_is_escaped_is_no_control_any_more() {
        let all = (0..=0x10_ffff).filter_map(char::from_u32);
        for c in all.filter(|c| is_control(*c)) {
            let text = c.to_string();
            for shown in [shown(&text), shown_json(&text)] {
                assert!(c == '\n' || !shown.contains(is_control), "{c:?}");
            }
        }
    }
}
