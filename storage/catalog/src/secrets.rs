//! Secrets that must be read again, such as passwords of destinations: encrypted with
//! XChaCha20-Poly1305 under a key that is not in the database.
//!
//! A sealed secret is the base64 of a random nonce (24 bytes), the cipher text and its tag. The
//! place where it is kept is authenticated with it: moved elsewhere, it does not open.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use std::fmt;
use thiserror::Error;

/// The length of a key, in bytes.
const KEY_BYTES: usize = 32;
/// The length of a nonce, in bytes: long enough to be drawn at random for ever.
const NONCE_BYTES: usize = 24;

/// The key that secrets are encrypted with, and those that were used before it and still open
/// what they sealed. Whoever has them and the database has the secrets.
#[derive(Clone)]
pub struct SecretKey {
    bytes: [u8; KEY_BYTES],
    older: Vec<[u8; KEY_BYTES]>,
}

/// Why a secret could not be read. Never tells of the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// The text of a key is none.
    #[error("the secret key is not the base64 of {KEY_BYTES} bytes")]
    Key,
    /// What is kept was sealed with another key or for another place, or is damaged.
    #[error("a secret does not open: it was sealed with another key, or is damaged")]
    Sealed,
}

impl SecretKey {
    /// A new key.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        Ok(Self {
            bytes,
            older: Vec::new(),
        })
    }

    /// A new key that opens what this one does.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn successor(&self) -> Result<Self, getrandom::Error> {
        let mut next = Self::generate()?;
        next.older.push(self.bytes);
        next.older.extend_from_slice(&self.older);
        Ok(next)
    }

    /// The key without those before it.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self {
            bytes: self.bytes,
            older: Vec::new(),
        }
    }

    /// Whether there are keys from before it.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.older.is_empty()
    }

    /// Reads what [`SecretKey::to_text`] writes: keys with commas or white space between them, the
    /// one that seals first.
    ///
    /// # Errors
    ///
    /// One of them is no base64, or not of a key's length, or there is none.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        let between = |character: char| character.is_whitespace() || character == ',';
        let texts = text.split(between).filter(|text| !text.is_empty());
        let key = |text| BASE64_STANDARD.decode(text).ok()?.try_into().ok();
        let keys: Option<Vec<_>> = texts.map(key).collect();
        let mut keys = keys.ok_or(SecretError::Key)?.into_iter();
        Ok(Self {
            bytes: keys.next().ok_or(SecretError::Key)?,
            older: keys.collect(),
        })
    }

    /// As it is kept in a file: base64, a key a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        let keys = std::iter::once(&self.bytes).chain(&self.older);
        let texts: Vec<String> = keys.map(|key| BASE64_STANDARD.encode(key)).collect();
        texts.join("\n")
    }

    /// Encrypts a secret for one place.
    pub(crate) fn seal(&self, place: &str, secret: &str) -> Result<String, getrandom::Error> {
        let mut nonce = XNonce::default();
        getrandom::fill(&mut nonce)?;
        let payload = Payload {
            msg: secret.as_bytes(),
            aad: place.as_bytes(),
        };
        // Fails for messages of more than 256 GiB only; what is then kept does not open.
        let encrypted = XChaCha20Poly1305::new(&self.bytes.into())
            .encrypt(&nonce, payload)
            .unwrap_or_default();
        let mut sealed = nonce.to_vec();
        sealed.extend_from_slice(&encrypted);
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// Decrypts what was sealed for this place.
    pub(crate) fn open(&self, place: &str, sealed: &str) -> Result<String, SecretError> {
        let sealed = BASE64_STANDARD.decode(sealed).ok();
        let parts = sealed
            .as_deref()
            .and_then(|sealed| sealed.split_at_checked(NONCE_BYTES));
        let (nonce, encrypted) = parts.ok_or(SecretError::Sealed)?;
        let nonce = XNonce::try_from(nonce).map_err(|_| SecretError::Sealed)?;
        let open = |key: &[u8; KEY_BYTES]| {
            let payload = Payload {
                msg: encrypted,
                aad: place.as_bytes(),
            };
            let cipher = XChaCha20Poly1305::new(&(*key).into());
            cipher.decrypt(&nonce, payload).ok()
        };
        let mut keys = std::iter::once(&self.bytes).chain(&self.older);
        let opened = keys.find_map(open).ok_or(SecretError::Sealed)?;
        String::from_utf8(opened).map_err(|_| SecretError::Sealed)
    }
}

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_opens_in_its_place_with_its_key_and_nowhere_else() {
        let key = SecretKey::generate().unwrap();
        for secret in ["", "s3cret", "ключ", &"x".repeat(100_000)] {
            let sealed = key.seal("here", secret).unwrap();
            assert!(secret.is_empty() || !sealed.contains(secret));
            assert_eq!(key.open("here", &sealed).unwrap(), secret);
            assert_eq!(key.open("there", &sealed), Err(SecretError::Sealed));
            let other = SecretKey::generate().unwrap();
            assert_eq!(other.open("here", &sealed), Err(SecretError::Sealed));
        }
        assert_ne!(key.seal("a", "b").unwrap(), key.seal("a", "b").unwrap());
    }

    #[test]
    fn what_is_damaged_does_not_open() {
        let key = SecretKey::generate().unwrap();
        let sealed = BASE64_STANDARD
            .decode(key.seal("a", "secret").unwrap())
            .unwrap();
        for position in 0..sealed.len() {
            let mut damaged = sealed.clone();
            damaged[position] ^= 1;
            let damaged = BASE64_STANDARD.encode(damaged);
            assert_eq!(
                key.open("a", &damaged),
                Err(SecretError::Sealed),
                "{position}"
            );
        }
        for text in ["", "AAAA", "no base64!"] {
            assert_eq!(key.open("a", text), Err(SecretError::Sealed), "{text}");
        }
    }

    #[test]
    fn keys_are_written_and_read_and_never_shown() {
        let key = SecretKey::generate().unwrap();
        let read = SecretKey::parse(&format!("{}\n", key.to_text())).unwrap();
        assert_eq!(read.to_text(), key.to_text());
        assert!(!format!("{key:?}").contains(&key.to_text()));
        for text in ["", "AAAA", "no base64!", &"A".repeat(43)] {
            assert_eq!(SecretKey::parse(text).unwrap_err(), SecretError::Key);
        }
    }

    #[test]
    fn a_successor_opens_what_was_sealed_before_until_it_is_alone() {
        let old = SecretKey::generate().unwrap();
        let sealed = old.seal("here", "s3cret").unwrap();
        let new = old.successor().unwrap();
        let read = SecretKey::parse(&new.to_text().replace('\n', ", ")).unwrap();
        assert_eq!(read.open("here", &sealed).unwrap(), "s3cret");
        assert_eq!(read.alone().open("here", &sealed), Err(SecretError::Sealed));
        let sealed = read.seal("here", "s3cret").unwrap();
        assert_eq!(old.open("here", &sealed), Err(SecretError::Sealed));
        assert_eq!(new.alone().open("here", &sealed).unwrap(), "s3cret");
        SecretKey::parse("").unwrap_err();
        SecretKey::parse(&format!("{} nonsense", old.to_text())).unwrap_err();
    }
}
