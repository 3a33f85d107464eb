//! The addresses that plugins come from: which may be used, and what of them may be seen.

use crate::error::ChangeError;
use url::{Url, form_urlencoded};

/// The longest address, in characters.
pub(super) const URL_CHARS_MAX: usize = 800;
/// The same in bytes: an index of PostgreSQL keeps no row of more than 2704.
const URL_BYTES_MAX: usize = 2400;
/// The parameter that lets private code be fetched.
const PRIVATE_TOKEN: &str = "private_token";

/// An address from which plugins come.
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

/// An address without what lets private code be fetched: user and password, and everything behind
/// the path if a token is there. One without secrets is shown as it was given.
pub(super) fn without_secrets(url: &str) -> String {
    let Ok(mut shown) = Url::parse(url) else {
        // Nobody can tell what is what in it.
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
    fn an_address_is_no_longer_than_an_index_can_hold() {
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
