//! Validation of names, labels and texts that people write. Control characters are refused, as they
//! would forge lines and clear screens where they are shown; older texts are shown escaped.

use millrace_catalog::ChangeError;
use millrace_rows::is_control;

/// Trims a name and checks that it has 1 to `chars_max` characters. `what` is for people, `field`
/// for the API.
///
/// # Errors
///
/// The name is empty, too long, or has control characters.
pub fn checked_name(
    what: &'static str,
    field: &'static str,
    name: &str,
    chars_max: usize,
) -> Result<String, ChangeError> {
    let name = name.trim();
    let empty = name.is_empty();
    if empty || name.chars().count() > chars_max {
        return Err(ChangeError::BadName {
            what,
            field,
            empty,
            chars_max,
        });
    }
    must_be_plain(field, name)?;
    Ok(name.to_owned())
}

/// Trims a text and checks that it has at most `chars_max` characters; it may be empty.
///
/// # Errors
///
/// The text is too long, or has control characters.
pub fn checked_text(
    field: &'static str,
    text: &str,
    chars_max: usize,
) -> Result<String, ChangeError> {
    let text = text.trim();
    if text.chars().count() > chars_max {
        let detail = format!("At most {chars_max} characters are kept here.");
        return Err(ChangeError::invalid(field, "max_length", detail));
    }
    must_be_plain(field, text)?;
    Ok(text.to_owned())
}

/// Refuses a text with control characters.
///
/// # Errors
///
/// The text has one.
pub fn must_be_plain(field: &'static str, text: &str) -> Result<(), ChangeError> {
    let Some(found) = text.chars().find(|c| is_control(*c)) else {
        return Ok(());
    };
    let detail = format!(
        "This holds U+{:04X}, a control character, which is not shown as it is written. Omit it.",
        u32::from(found)
    );
    Err(ChangeError::invalid(field, "invalid_input", detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(checked_name("it", "name", " a ", 3).unwrap(), "a");
        assert_eq!(checked_name("it", "name", "äöü", 3).unwrap(), "äöü");
        for (name, code) in [(" \t", "blank"), ("abcd", "max_length")] {
            let error = checked_name("it", "name", name, 3).unwrap_err();
            let violation = error.violation().unwrap();
            assert_eq!(violation.code, code);
            assert_eq!(violation.field.as_deref(), Some("name"));
        }
        for hostile in [
            "a\nb",
            "a\u{1b}",
            "\u{9b}a",
            "a\u{202e}b",
            "a\u{2028}b",
            "\0",
        ] {
            for refused in [
                checked_name("it", "name", hostile, 9),
                checked_text("name", hostile, 9),
            ] {
                let error = refused.unwrap_err();
                let violation = error.violation().unwrap();
                let told = (violation.code, violation.field.as_deref());
                assert_eq!(told, ("invalid_input", Some("name")), "{hostile:?}");
            }
        }
        assert_eq!(checked_text("note", "", 3).unwrap(), "");
        let error = checked_text("note", "abcd", 3).unwrap_err();
        assert_eq!(error.violation().unwrap().code, "max_length");
    }
}
