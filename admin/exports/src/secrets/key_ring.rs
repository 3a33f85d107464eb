//! Key ring: the current key and older ones, newest first.
//!
//! A sealed secret is the base64 of a random nonce (24 bytes), the cipher text and its tag. Its
//! context, the place where it is stored, is authenticated with it: moved elsewhere, it does not
//! open.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use sha2::{Digest, Sha256};

/// Length of a key, in bytes.
pub(super) const KEY_BYTES: usize = 32;
/// Length of a nonce, in bytes: long enough to be drawn at random for ever.
const NONCE_BYTES: usize = 24;
/// Words before all that a fingerprint is the hash of, which nothing else is.
const FINGERPRINT_LABEL: &[u8] = b"millrace secret key fingerprint\0";

/// Key that seals, and older ones that still open.
#[derive(Clone)]
pub(super) struct KeyRing {
    bytes: [u8; KEY_BYTES],
    older: Vec<[u8; KEY_BYTES]>,
}

impl KeyRing {
    pub(super) fn generate() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; KEY_BYTES];
        getrandom::fill(&mut bytes)?;
        let older = Vec::new();
        Ok(Self { bytes, older })
    }

    /// Puts the key of `next` before all others.
    pub(super) fn succeeded_by(self, next: &Self) -> Self {
        let mut older = vec![self.bytes];
        older.extend(self.older);
        Self {
            bytes: next.bytes,
            older,
        }
    }

    pub(super) fn truncate_older(&mut self, older_max: usize) {
        self.older.truncate(older_max);
    }

    pub(super) fn older_count(&self) -> usize {
        self.older.len()
    }

    /// Parses keys; `None` if one is no base64 or has another length, or there is none.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let between = |character: char| character.is_whitespace() || character == ',';
        let texts = text.split(between).filter(|text| !text.is_empty());
        let key = |text| BASE64_STANDARD.decode(text).ok()?.try_into().ok();
        let keys: Option<Vec<_>> = texts.map(key).collect();
        let mut keys = keys?.into_iter();
        Some(Self {
            bytes: keys.next()?,
            older: keys.collect(),
        })
    }

    /// Text of the keys: base64, one key a line.
    pub(super) fn to_text(&self) -> String {
        let keys = std::iter::once(&self.bytes).chain(&self.older);
        let texts: Vec<String> = keys.map(|key| BASE64_STANDARD.encode(key)).collect();
        texts.join("\n")
    }

    /// Fingerprints of the keys, newest first: hashes with a salt, as base64. A key has 256 random
    /// bits, so that nothing is learned of it.
    pub(super) fn fingerprints(&self, salt: &[u8]) -> Vec<String> {
        let fingerprint = |key: &[u8; KEY_BYTES]| {
            let mut hash = Sha256::new();
            hash.update(FINGERPRINT_LABEL);
            hash.update(salt);
            hash.update(key);
            BASE64_STANDARD.encode(hash.finalize())
        };
        let keys = std::iter::once(&self.bytes).chain(&self.older);
        keys.map(fingerprint).collect()
    }

    /// Encrypts a secret with the newest key.
    pub(super) fn seal(&self, context: &str, secret: &str) -> Result<String, getrandom::Error> {
        let mut nonce = XNonce::default();
        getrandom::fill(&mut nonce)?;
        let payload = Payload {
            msg: secret.as_bytes(),
            aad: context.as_bytes(),
        };
        // Fails only for messages of more than 256 GiB; the stored text then does not open.
        let encrypted = XChaCha20Poly1305::new(&self.bytes.into())
            .encrypt(&nonce, payload)
            .unwrap_or_default();
        let mut sealed = nonce.to_vec();
        sealed.extend_from_slice(&encrypted);
        Ok(BASE64_STANDARD.encode(sealed))
    }

    /// Decrypts a secret with whichever key opens it.
    pub(super) fn open(&self, context: &str, sealed: &str) -> Option<String> {
        let sealed = BASE64_STANDARD.decode(sealed).ok()?;
        let (nonce, encrypted) = sealed.split_at_checked(NONCE_BYTES)?;
        let nonce = XNonce::try_from(nonce).ok()?;
        let open = |key: &[u8; KEY_BYTES]| {
            let payload = Payload {
                msg: encrypted,
                aad: context.as_bytes(),
            };
            let cipher = XChaCha20Poly1305::new(&(*key).into());
            cipher.decrypt(&nonce, payload).ok()
        };
        let mut keys = std::iter::once(&self.bytes).chain(&self.older);
        String::from_utf8(keys.find_map(open)?).ok()
    }
}
