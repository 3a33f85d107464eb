//! Secrets that must be read again, such as passwords of destinations: encrypted with
//! XChaCha20-Poly1305 under a key that is not in the database.
//!
//! | Module | Holds |
//! |---|---|
//! | `ring` | keys, and what they seal and open |
//!
//! A key may be replaced while processes use it: those that can read it again do so.

mod ring;

use ring::{KEY_BYTES, Ring};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error;

/// The key that secrets are encrypted with, and those that were used before it and still open
/// what they sealed. Whoever has them and the database has the secrets. Clones share what they
/// know.
#[derive(Clone)]
pub struct SecretKey {
    known: Arc<RwLock<Ring>>,
    read_again: Option<Arc<ReadAgain>>,
}

type ReadAgain = dyn Fn() -> Option<SecretKey> + Send + Sync;

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
        Ok(Self::of(Ring::generate()?))
    }

    /// A new key that opens what this one does.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn successor(&self) -> Result<Self, getrandom::Error> {
        let next = Ring::generate()?;
        Ok(Self::of(self.ring().behind(&next)))
    }

    /// The key with at most so many of those before it, newest first.
    #[must_use]
    pub fn with_older(&self, older_max: usize) -> Self {
        let mut ring = self.ring();
        ring.forget_older(older_max);
        Self::of(ring)
    }

    /// How many keys there are from before it.
    #[must_use]
    pub fn older_count(&self) -> usize {
        self.ring().older_count()
    }

    /// The key as one that may be replaced while the process runs: it is asked for again before
    /// anything is sealed, and before it is said that a secret does not open. Where `read_again`
    /// has no answer, it is the one that was known last.
    #[must_use]
    pub fn read_again_by(
        self,
        read_again: impl Fn() -> Option<Self> + Send + Sync + 'static,
    ) -> Self {
        Self {
            known: self.known,
            read_again: Some(Arc::new(read_again)),
        }
    }

    /// Reads what [`SecretKey::to_text`] writes: keys with commas or white space between them, the
    /// one that seals first.
    ///
    /// # Errors
    ///
    /// One of them is no base64, or not of a key's length, or there is none.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        Ring::parse(text).map(Self::of).ok_or(SecretError::Key)
    }

    /// As it is kept in a file: base64, a key a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.ring().to_text()
    }

    /// Encrypts a secret for one place.
    pub(crate) fn seal(&self, place: &str, secret: &str) -> Result<String, getrandom::Error> {
        self.latest().seal(place, secret)
    }

    /// Decrypts what was sealed for this place.
    pub(crate) fn open(&self, place: &str, sealed: &str) -> Result<String, SecretError> {
        let opened = self.ring().open(place, sealed);
        let opened = match (&opened, &self.read_again) {
            (None, Some(_)) => self.latest().open(place, sealed),
            _ => opened,
        };
        opened.ok_or(SecretError::Sealed)
    }

    fn of(ring: Ring) -> Self {
        Self {
            known: Arc::new(RwLock::new(ring)),
            read_again: None,
        }
    }

    /// What is known.
    fn ring(&self) -> Ring {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// What is known after it was asked for again.
    fn latest(&self) -> Ring {
        let read = self.read_again.as_ref().and_then(|read| read());
        let Some(read) = read else {
            return self.ring();
        };
        let latest = read.ring();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.clone_from(&latest);
        latest
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
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;

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
        let alone = new.with_older(0);
        assert_eq!(alone.open("here", &sealed), Err(SecretError::Sealed));
        let sealed = read.seal("here", "s3cret").unwrap();
        assert_eq!(old.open("here", &sealed), Err(SecretError::Sealed));
        assert_eq!(alone.open("here", &sealed).unwrap(), "s3cret");
        let third = new.successor().unwrap();
        assert_eq!((new.older_count(), third.older_count()), (1, 2));
        let text = third.with_older(1).to_text();
        assert_eq!(
            text,
            third
                .to_text()
                .lines()
                .take(2)
                .collect::<Vec<_>>()
                .join("\n")
        );
        SecretKey::parse("").unwrap_err();
        SecretKey::parse(&format!("{} nonsense", old.to_text())).unwrap_err();
    }

    #[test]
    fn a_key_that_is_replaced_is_read_again_to_seal_and_before_giving_up() {
        let old = SecretKey::generate().unwrap();
        let kept = Arc::new(RwLock::new(Some(old.clone())));
        let read = kept.clone();
        let key = old.with_older(0);
        let key = key.read_again_by(move || read.read().unwrap().clone());
        let clone = key.clone();
        let before = key.seal("here", "before").unwrap();
        let new = old.successor().unwrap();
        *kept.write().unwrap() = Some(new.clone());
        let other = new.seal("here", "other").unwrap();
        assert_eq!(key.open("here", &other).unwrap(), "other");
        assert_eq!(key.open("here", &before).unwrap(), "before");
        let third = new.successor().unwrap().with_older(1);
        *kept.write().unwrap() = Some(third.clone());
        let sealed = clone.seal("here", "own").unwrap();
        assert_eq!(third.with_older(0).open("here", &sealed).unwrap(), "own");
        assert_eq!(key.open("here", &before), Err(SecretError::Sealed));
        // Nobody can read it now: what was known last seals and opens.
        *kept.write().unwrap() = None;
        let sealed = key.seal("here", "own").unwrap();
        assert_eq!(third.open("here", &sealed).unwrap(), "own");
        assert_eq!(clone.open("here", &sealed).unwrap(), "own");
    }
}
