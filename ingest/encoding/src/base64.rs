//! Base64 as clients send it: either alphabet, padded or not, broken into lines, and with the `+`
//! that a form decoder turned into a space.

use crate::DecodeError;
use base64::Engine;
use base64::engine::general_purpose::GeneralPurposeConfig;
use base64::engine::{DecodePaddingMode, GeneralPurpose};

const TOLERANT: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Appends the decoded `body`.
pub fn decode(body: &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<(), DecodeError> {
    if body.len() / 4 * 3 > bytes_max.saturating_add(3) {
        return Err(DecodeError::TooLarge);
    }
    let text: Vec<u8> = standard_alphabet(body).collect();
    TOLERANT
        .decode_vec(&text, out)
        .map_err(|_| DecodeError::broken("The body is not valid base64."))?;
    if out.len() > bytes_max {
        Err(DecodeError::TooLarge)
    } else {
        Ok(())
    }
}

/// Text in the standard alphabet, without line ends.
pub fn standard_alphabet(text: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let text = text.trim_ascii();
    text.iter().filter_map(|byte| match byte {
        b'\r' | b'\n' | b'\t' => None,
        b' ' | b'-' => Some(b'+'),
        b'_' => Some(b'/'),
        other => Some(*other),
    })
}
