//! Addresses that plugins are installed from: validation, and removal of secrets.

use millrace_catalog::ChangeError;
use url::{Url, form_urlencoded};

/// Longest address, in characters.
pub(super) const URL_CHARS_MAX: usize = 800;
/// Longest address, in bytes: an index of PostgreSQL stores no row of more than 2704.
const URL_BYTES_MAX: usize = 2400;
/// Parameter with the token for private code.
const PRIVATE_TOKEN: &str = "private_token";

/// Validates an address that a plugin is installed from.
pub(super) fn check_url(url: &str) -> Result<(), ChangeError> {
    if url.chars().count() > URL_CHARS_MAX || url.len() > URL_BYTES_MAX {
        let detail =
            format!("url may have at most {URL_CHARS_MAX} characters and {URL_BYTES_MAX} bytes");
        return Err(ChangeError::invalid("url", "max_length", detail));
    }
    let parsed = Url::parse(url).ok();
    let usable = |parsed: &Url| matches!(parsed.scheme(), "http" | "https") && parsed.has_host();
    if parsed.as_ref().is_some_and(usable) && !url.contains('\0') {
        Ok(())
    } else {
        let detail = "give an address such as https://github.com/<owner>/<repository>";
        Err(ChangeError::invalid("url", "invalid_input", detail))
    }
}

/// Removes the secrets of an address: user and password, and everything behind the path if it has a
/// token. An address without secrets stays as it was given.
pub(super) fn without_secrets(url: &str) -> String {
    let Ok(mut shown) = Url::parse(url) else {
        // A malformed address may hold secrets anywhere.
        return String::new();
    };
    let names_user = !shown.username().is_empty() || shown.password().is_some();
    let holds_token = [shown.query(), shown.fragment()]
        .into_iter()
        .flatten()
        .any(is_about_a_token);
    if !names_user && !holds_token {
        return url.to_owned();
    }
    if holds_token {
        shown.set_query(None);
        shown.set_fragment(None);
    }
    // Both can only fail for addresses without a host, which have no user either.
    let _: Result<(), ()> = shown.set_username("");
    let _: Result<(), ()> = shown.set_password(None);
    shown.into()
}

fn is_about_a_token(parameters: &str) -> bool {
    form_urlencoded::parse(parameters.as_bytes()).any(|(name, value)| {
        [name, value]
            .iter()
            .any(|text| text.to_lowercase().contains(PRIVATE_TOKEN))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_its_secrets() {
        let table = [
            ("https://a.example", "https://a.example"),
            ("https://a.example/b?tag=1#c", "https://a.example/b?tag=1#c"),
            ("https://a.example/b?private_token=s", "https://a.example/b"),
            (
                "https://a.example/b?tag=1&Private%5FToken=s#c",
                "https://a.example/b",
            ),
            (
                "https://a.example/b?tag=1;private_token=s",
                "https://a.example/b",
            ),
            (
                "https://a.example/b?private_to\tken=s",
                "https://a.example/b",
            ),
            ("https://a.example/b#private_token=s", "https://a.example/b"),
            (
                "https://ann:s@a.example/b?tag=1",
                "https://a.example/b?tag=1",
            ),
            ("https://s@a.example/b", "https://a.example/b"),
            ("https://:s@a.example/b", "https://a.example/b"),
            ("https:\\\\ann:s@a.example/b", "https://a.example/b"),
            (
                "https://ann:s@a.example/b?private_token=s",
                "https://a.example/b",
            ),
            ("no address: s", ""),
        ];
        for (url, shown) in table {
            assert_eq!(without_secrets(url), shown, "{url}");
        }
    }

    #[test]
    fn an_address_that_is_too_long_for_the_index_is_refused() {
        let of =
            |letter: &str, letters: usize| format!("https://a.example/{}", letter.repeat(letters));
        let table = [
            (of("x", 782), true),
            (of("x", 783), false),
            // Two, three and four bytes each.
            (of("ü", 782), true),
            (of("語", 782), true),
            (of("🦀", 590), true),
            (of("🦀", 600), false),
        ];
        for (url, fits) in table {
            assert_eq!(check_url(&url).is_ok(), fits, "{} bytes", url.len());
        }
    }
}
