//! Keys, and a verifier of tokens that were signed with them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use tokio_rustls::rustls::SignatureScheme;
use tokio_rustls::rustls::crypto::ring;

pub const PLAIN: &str = include_str!("keys/plain.pem");
pub const PKCS1: &str = include_str!("keys/pkcs1.pem");
pub const AES: &str = include_str!("keys/aes.pem");
pub const DES3: &str = include_str!("keys/des3.pem");
pub const PASSPHRASE: &str = "canary-passphrase";
/// Fingerprint of the public key, by OpenSSL.
pub const FINGERPRINT: &str = include_str!("keys/fingerprint.txt");
const PUBLIC: &[u8] = include_bytes!("keys/public.der");

/// Header and claims of a token, after checking its signature.
pub fn opened(token: &str) -> (Value, Value) {
    let (said, signature) = token.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    let provider = ring::default_provider();
    let algorithms = provider.signature_verification_algorithms.mapping;
    let (_, algorithms) = algorithms
        .iter()
        .find(|(scheme, _)| *scheme == SignatureScheme::RSA_PKCS1_SHA256)
        .unwrap();
    algorithms[0]
        .verify_signature(PUBLIC, said.as_bytes(), &signature)
        .unwrap();
    let (header, claims) = said.split_once('.').unwrap();
    let json = |part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap();
    (json(header), json(claims))
}
