//! Random secrets and challenges.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Random bytes of a text.
const BYTES: usize = 32;

/// Generates 256 random bits as 43 characters that are safe in a URL.
///
/// # Errors
///
/// The system gives no random bytes.
pub fn random_text() -> Result<String, getrandom::Error> {
    let mut random = [0_u8; BYTES];
    getrandom::fill(&mut random)?;
    Ok(URL_SAFE_NO_PAD.encode(random))
}

/// Returns true if a text could have come from [`random_text`].
#[must_use]
pub fn is_random_text(text: &str) -> bool {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.is_ok_and(|bytes| bytes.len() == BYTES)
}
