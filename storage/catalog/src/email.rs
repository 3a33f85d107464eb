//! E-mail addresses in one normal form, to which mail is sent and by which users are identified.
//!
//! Two spellings of one mailbox are one user, and no user is identified by an address that mail
//! would not reach. For that, addresses are normalised before a mail is sent, not after:
//!
//! - the domain is punycode in lower case, as DNS is asked for it;
//! - the part before it is composed (NFC), which makes the Kelvin sign a `K`; its case is the
//!   receiving server's affair and stays for mails;
//! - users are identified by that in lower case.

use email_address::{EmailAddress, Options};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};
use millrace_rows::is_control;
use unicode_normalization::UnicodeNormalization;

/// Longest address, in characters.
const EMAIL_CHARS_MAX: usize = 254;

/// Key of an e-mail address: all spellings of a mailbox have one.
#[must_use]
pub fn email_key(text: &str) -> String {
    Email::key_of(text)
}

/// Address that mail could be sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    /// Address for mails, with the case of the part before the `@`.
    pub mailbox: String,
    /// Address in lower case, by which its owner is identified.
    pub key: String,
}

impl Email {
    /// Parses an address; `None` if it is plainly none. Only a mail can prove it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (local, domain) = text.trim().rsplit_once('@')?;
        // Names that DNS refuses, such as those with underscores, may exist in a private network.
        let domain = Uts46::new().to_ascii(
            domain.as_bytes(),
            AsciiDenyList::URL,
            Hyphens::Allow,
            DnsLength::Verify,
        );
        let local: String = local.nfc().collect();
        let mailbox = format!("{local}@{}", domain.ok()?);
        let key: String = mailbox.to_lowercase().nfc().collect();
        (is_plausible(&mailbox) && is_plausible(&key)).then_some(Self { mailbox, key })
    }

    /// Key by which the owner of an address is identified. A text that is no address is normalised
    /// as it was before addresses had one form.
    #[must_use]
    pub fn key_of(text: &str) -> String {
        let parsed = Self::parse(text).map(|email| email.key);
        parsed.unwrap_or_else(|| text.trim().to_lowercase())
    }
}

/// Returns true for an address by RFC 5322, without a display name, and without the white space
/// that it allows in quotes.
fn is_plausible(email: &str) -> bool {
    let strict = Options::default()
        .without_display_text()
        .without_domain_literal()
        .with_no_minimum_sub_domains();
    let printable = !email.contains(|c: char| c.is_whitespace() || is_control(c));
    printable
        && email.chars().count() <= EMAIL_CHARS_MAX
        && EmailAddress::parse_with_options(email, strict).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_mailbox_have_one_key() {
        let table = [
            (" Ann@Example.COM ", "Ann@example.com", "ann@example.com"),
            ("owner@localhost", "owner@localhost", "owner@localhost"),
            ("a@b_c.example", "a@b_c.example", "a@b_c.example"),
            // The Kelvin sign is composed to a K, and mail goes there.
            (
                "\u{212a}ay@example.com",
                "Kay@example.com",
                "kay@example.com",
            ),
            ("a@\u{212a}ay.example", "a@kay.example", "a@kay.example"),
            // Composed and not.
            (
                "r\u{e9}@a.example",
                "r\u{e9}@a.example",
                "r\u{e9}@a.example",
            ),
            (
                "re\u{301}@a.example",
                "r\u{e9}@a.example",
                "r\u{e9}@a.example",
            ),
            (
                "RE\u{301}@a.example",
                "R\u{c9}@a.example",
                "r\u{e9}@a.example",
            ),
            // Unicode and punycode.
            (
                "a@B\u{fc}cher.example",
                "a@xn--bcher-kva.example",
                "a@xn--bcher-kva.example",
            ),
            (
                "a@bu\u{308}cher.example",
                "a@xn--bcher-kva.example",
                "a@xn--bcher-kva.example",
            ),
            (
                "a@XN--BCHER-KVA.example",
                "a@xn--bcher-kva.example",
                "a@xn--bcher-kva.example",
            ),
            // Full width is another mailbox.
            (
                "\u{ff4b}ay@a.example",
                "\u{ff4b}ay@a.example",
                "\u{ff4b}ay@a.example",
            ),
        ];
        for (text, mailbox, key) in table {
            let email = Email::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((&*email.mailbox, &*email.key), (mailbox, key), "{text}");
            let again = Email::parse(&email.key).unwrap();
            assert_eq!(again.key, key, "{text}");
            assert_eq!(again.mailbox, key, "{text}");
        }
    }

    /// Checks an address with this character in it, if it is one.
    fn assert_key(c: char) {
        let Some(email) = Email::parse(&format!("a{c}b@a.example")) else {
            return;
        };
        assert!(
            !email.key.is_ascii() || email.mailbox.eq_ignore_ascii_case(&email.key),
            "{c:?}: {email:?}"
        );
    }

    #[test]
    fn the_key_of_an_ascii_address_is_its_mailbox_in_lower_case() {
        const THREADS: usize = 4;
        // A million parses take twenty seconds of a core.
        std::thread::scope(|scope| {
            for first in 0..THREADS {
                scope.spawn(move || {
                    let codes = (0x80..=u32::from(char::MAX)).skip(first).step_by(THREADS);
                    codes.filter_map(char::from_u32).for_each(assert_key);
                });
            }
        });
    }

    #[test]
    fn malformed_addresses_are_refused() {
        let long = format!("{}@b", "a".repeat(254));
        for wrong in [
            "",
            "ann",
            "@b",
            "a@",
            "a@b@c",
            "a b@c",
            "a\n@c",
            "A <a@b>",
            "a@[::1]",
            &long,
            "a@b..c",
            "a@xn--\u{80}.example",
            "a@b\u{ad}..c",
            // Lower case decomposes it, and a lone combining mark is in no address.
            "\u{130}@a.example",
        ] {
            assert_eq!(Email::parse(wrong), None, "{wrong:?}");
            assert_eq!(
                Email::key_of(wrong),
                wrong.trim().to_lowercase(),
                "{wrong:?}"
            );
        }
    }
}
