//! Encryption of secrets that must be read back, such as passwords of destinations, with
//! XChaCha20-Poly1305 under a key that is not in the database.
//!
//! | Module | Holds |
//! |---|---|
//! | `key_ring` | current and older keys, sealing and opening |
//!
//! A key may be replaced while processes use it: those that can reload it do so.

mod key_ring;

use key_ring::{KEY_BYTES, KeyRing};
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use thiserror::Error;

/// Key that encrypts secrets, with the older keys that still open what they sealed. Whoever has
/// them and the database has the secrets. Clones share reloaded keys.
#[derive(Clone)]
pub struct SecretKey {
    known: Arc<RwLock<KeyRing>>,
    reload: Option<Arc<Reload>>,
}

type Reload = dyn Fn() -> Option<SecretKey> + Send + Sync;

/// Reason why a secret could not be read, without any part of the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecretError {
    /// A text is no key.
    #[error("the secret key is not the base64 of {KEY_BYTES} bytes")]
    Key,
    /// A secret was sealed with another key or for another context, or is damaged.
    #[error("a secret does not open: it was sealed with another key, or is damaged")]
    Sealed,
}

impl SecretKey {
    /// Generates a key.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn generate() -> Result<Self, getrandom::Error> {
        Ok(Self::of(KeyRing::generate()?))
    }

    /// Generates the next key, which also opens what this one does.
    ///
    /// # Errors
    ///
    /// The system gives no random bytes.
    pub fn successor(&self) -> Result<Self, getrandom::Error> {
        let next = KeyRing::generate()?;
        Ok(Self::of(self.ring().succeeded_by(&next)))
    }

    /// Drops all but the newest `older_max` older keys.
    #[must_use]
    pub fn with_older(&self, older_max: usize) -> Self {
        let mut ring = self.ring();
        ring.truncate_older(older_max);
        Self::of(ring)
    }

    /// Number of older keys.
    #[must_use]
    pub fn older_count(&self) -> usize {
        self.ring().older_count()
    }

    /// Adds a callback that reloads the key, which may be replaced while the process runs: before
    /// anything is sealed, and before a secret is reported not to open. If `reload` returns `None`,
    /// the last known key is used.
    #[must_use]
    pub fn with_reload(self, reload: impl Fn() -> Option<Self> + Send + Sync + 'static) -> Self {
        Self {
            known: self.known,
            reload: Some(Arc::new(reload)),
        }
    }

    /// Parses the text of [`SecretKey::to_text`]: keys separated by commas or white space, the
    /// sealing one first.
    ///
    /// # Errors
    ///
    /// A key is no base64 or has another length, or there is none.
    pub fn parse(text: &str) -> Result<Self, SecretError> {
        KeyRing::parse(text).map(Self::of).ok_or(SecretError::Key)
    }

    /// Text for a file: base64, one key a line.
    #[must_use]
    pub fn to_text(&self) -> String {
        self.ring().to_text()
    }

    /// Fingerprints of the keys, the sealing one first, which tell nothing of the keys. Those of
    /// one key with different salts have nothing in common; use the id of the catalog.
    #[must_use]
    pub fn fingerprints(&self, salt: &[u8]) -> Vec<String> {
        self.ring().fingerprints(salt)
    }

    /// Encrypts a secret for a context, the place where it is stored.
    pub(crate) fn seal(&self, context: &str, secret: &str) -> Result<String, getrandom::Error> {
        self.latest().seal(context, secret)
    }

    /// Decrypts a secret that was sealed for this context.
    pub(crate) fn open(&self, context: &str, sealed: &str) -> Result<String, SecretError> {
        let opened = self.ring().open(context, sealed);
        let opened = match (&opened, &self.reload) {
            (None, Some(_)) => self.latest().open(context, sealed),
            _ => opened,
        };
        opened.ok_or(SecretError::Sealed)
    }

    fn of(ring: KeyRing) -> Self {
        Self {
            known: Arc::new(RwLock::new(ring)),
            reload: None,
        }
    }

    /// Known keys.
    fn ring(&self) -> KeyRing {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.clone()
    }

    /// Reloads the keys; the known ones where that fails.
    fn latest(&self) -> KeyRing {
        let read = self.reload.as_ref().and_then(|read| read());
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
    fn a_secret_opens_only_in_its_context_and_with_its_key() {
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
    fn a_damaged_secret_does_not_open() {
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
    fn keys_are_written_and_parsed_and_never_shown() {
        let key = SecretKey::generate().unwrap();
        let read = SecretKey::parse(&format!("{}\n", key.to_text())).unwrap();
        assert_eq!(read.to_text(), key.to_text());
        assert!(!format!("{key:?}").contains(&key.to_text()));
        for text in ["", "AAAA", "no base64!", &"A".repeat(43)] {
            assert_eq!(SecretKey::parse(text).unwrap_err(), SecretError::Key);
        }
    }

    #[test]
    fn a_successor_opens_older_secrets_until_older_keys_are_dropped() {
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
    fn a_fingerprint_is_that_of_one_key_and_salt_and_holds_no_part_of_the_key() {
        let old = SecretKey::generate().unwrap();
        let new = old.successor().unwrap();
        let [first] = old.fingerprints(b"one").try_into().unwrap();
        let both = new.fingerprints(b"one");
        assert_eq!((both.len(), &both[1]), (2, &first));
        assert_ne!(both[0], first);
        assert_ne!(old.fingerprints(b"two"), [&*first]);
        assert!(!new.to_text().contains(&first) && !first.contains(&old.to_text()));
    }

    #[test]
    fn a_replaced_key_is_reloaded_before_sealing_and_before_giving_up() {
        let old = SecretKey::generate().unwrap();
        let kept = Arc::new(RwLock::new(Some(old.clone())));
        let read = kept.clone();
        let key = old.with_older(0);
        let key = key.with_reload(move || read.read().unwrap().clone());
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
        // Reloading fails now: the last known key seals and opens.
        *kept.write().unwrap() = None;
        let sealed = key.seal("here", "own").unwrap();
        assert_eq!(third.open("here", &sealed).unwrap(), "own");
        assert_eq!(clone.open("here", &sealed).unwrap(), "own");
    }
}
