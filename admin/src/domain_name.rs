//! Normalization of domain names as people type them: punycode, lower case, no dot at the end.

use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

/// Normalizes a domain name; `None` if nobody could own it: a single label, an address,
/// underscores, a top level of other than letters.
#[must_use]
pub fn normalized(text: &str) -> Option<String> {
    let text = text.trim();
    let text = text.strip_suffix('.').unwrap_or(text);
    let name = Uts46::new()
        .to_ascii(
            text.as_bytes(),
            AsciiDenyList::STD3,
            Hyphens::Check,
            DnsLength::Verify,
        )
        .ok()?;
    let (_, top) = name.rsplit_once('.')?;
    let is_word = top.len() >= 2 && top.bytes().all(|byte| byte.is_ascii_lowercase());
    (is_word || top.starts_with("xn--")).then(|| name.into_owned())
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn names_are_normalized_to_lower_case_punycode() {
        let table = [
            ("example.com", "example.com"),
            (" Example.COM. ", "example.com"),
            ("a-b.c1.example", "a-b.c1.example"),
            ("bücher.example", "xn--bcher-kva.example"),
            ("BÜCHER.example", "xn--bcher-kva.example"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
            // Full stops of other scripts separate labels, too.
            ("example。com", "example.com"),
            ("faß.de", "xn--fa-hia.de"),
        ];
        for (text, name) in table {
            assert_eq!(normalized(text).as_deref(), Some(name), "{text}");
        }
    }

    #[test]
    fn names_that_nobody_can_own_are_rejected() {
        let long_label = format!("{}.com", "a".repeat(64));
        let long_name = format!("{}com", "abcdefgh.".repeat(31));
        for text in [
            "",
            ".",
            "localhost",
            "com.",
            "a..com",
            ".example.com",
            "a_b.example.com",
            "-a.example.com",
            "a-.example.com",
            "a b.com",
            "a@b.com",
            "https://example.com",
            "example.com/x",
            "example.com:80",
            "192.0.2.1",
            "[::1]",
            "example.c",
            "example.c0m",
            "xn--\u{80}.com",
            "xn--a.com",
            "a\r\nb.com",
            &long_label,
            &long_name,
        ] {
            assert_eq!(normalized(text), None, "{text:?}");
        }
    }
}
