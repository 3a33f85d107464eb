//! Tokens signed with a customer's RSA key (RS256).

use crate::error::ExportError;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use pkcs8::EncryptedPrivateKeyInfoRef;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::fmt;
use std::sync::Arc;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::crypto::ring::sign::any_supported_type;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::sign::SigningKey;

/// Private key that signs tokens.
#[derive(Clone)]
pub(crate) struct Signer {
    key: Arc<dyn SigningKey>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signer")
    }
}

impl Signer {
    /// Reads a key in PEM, as PKCS#8 or PKCS#1; encrypted ones need their passphrase. Line ends may
    /// be written as `\n`, as they are in JSON.
    pub(crate) fn of_pem(pem: &str, passphrase: Option<&str>) -> Result<Self, ExportError> {
        let unreadable = || {
            ExportError::permanent(
                "The private key cannot be read: give an RSA key in PEM, and the passphrase if \
                 it is encrypted.",
            )
        };
        let pem = pem.replace("\\n", "\n");
        let key = match passphrase {
            Some(passphrase) if pem.contains("ENCRYPTED") => decrypted(&pem, passphrase),
            _ => PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok(),
        };
        let key = any_supported_type(&key.ok_or_else(unreadable)?).map_err(|_| unreadable())?;
        let signer = Self { key };
        // A key of another algorithm cannot sign here.
        signer.signature(b"").map_err(|_| unreadable())?;
        Ok(signer)
    }

    /// Signs a token with these claims.
    pub(crate) fn token(
        &self,
        key_id: Option<&str>,
        claims: &Value,
    ) -> Result<String, ExportError> {
        let mut header = json!({"alg": "RS256", "typ": "JWT"});
        if let (Some(key_id), Some(header)) = (key_id, header.as_object_mut()) {
            header.insert("kid".to_owned(), key_id.into());
        }
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let said = format!("{}.{}", encoded(&header), encoded(claims));
        let signature = self.signature(said.as_bytes())?;
        Ok(format!("{said}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }

    fn signature(&self, said: &[u8]) -> Result<Vec<u8>, ExportError> {
        let failed = || ExportError::permanent("The private key cannot sign. Give an RSA key.");
        let signer = self.key.choose_scheme(&[SignatureScheme::RSA_PKCS1_SHA256]);
        let signer = signer.ok_or_else(failed)?;
        signer.sign(said).map_err(|_| failed())
    }

    /// Fingerprint by which Snowflake knows the public key.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        let public = self.key.public_key()?;
        Some(format!(
            "SHA256:{}",
            STANDARD.encode(Sha256::digest(public.as_ref()))
        ))
    }
}

fn decrypted(pem: &str, passphrase: &str) -> Option<PrivateKeyDer<'static>> {
    let body: String = pem
        .lines()
        .filter(|line| !line.starts_with("-----"))
        .map(str::trim)
        .collect();
    let der = STANDARD.decode(body).ok()?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(der.as_slice()).ok()?;
    let key = encrypted.decrypt(passphrase).ok()?;
    Some(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
}
