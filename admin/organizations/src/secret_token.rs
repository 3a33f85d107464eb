//! Secrets of links and sessions. The catalog stores their hashes only.

use millrace_catalog::key::{is_hash_of, sha256_hex};
use millrace_catalog::random::{is_random_text, random_text};
use std::fmt;

/// Secret of a link or of a session: 256 random bits. `Debug` hides it.
#[derive(Clone)]
pub struct SecretToken(String);

impl SecretToken {
    pub(crate) fn generate() -> Result<Self, getrandom::Error> {
        random_text().map(Self)
    }

    /// Parses a presented token; `None` if it cannot be one.
    #[must_use]
    pub fn parse(presented: &str) -> Option<Self> {
        is_random_text(presented).then(|| Self(presented.to_owned()))
    }

    /// Secret in plain text, safe in a URL.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Hash of the token, which the catalog stores.
    pub(crate) fn hash(&self) -> String {
        sha256_hex(self.0.as_bytes())
    }

    pub(crate) fn has_hash(&self, kept: &str) -> bool {
        is_hash_of(self.0.as_bytes(), kept)
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretToken(...)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_43_url_safe_characters() {
        let token = SecretToken::generate().unwrap();
        let again = SecretToken::parse(token.expose()).unwrap();
        assert_eq!(token.expose().len(), 43);
        assert!(again.has_hash(&token.hash()));
        assert!(!SecretToken::generate().unwrap().has_hash(&token.hash()));
        assert!(!format!("{token:?}").contains(token.expose()));
        let long = format!("{}A", token.expose());
        for wrong in ["", "abc", "0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071", &long] {
            assert!(SecretToken::parse(wrong).is_none(), "{wrong}");
        }
    }
}
