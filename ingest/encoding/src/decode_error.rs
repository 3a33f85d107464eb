//! Errors of decoding.

use http::StatusCode;
use millrace_parse::{ApiError, ErrorType};
use std::borrow::Cow;

/// Reason why a body could not be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not of the encoding that was named.
    Broken(Cow<'static, str>),
    /// The output would be larger than allowed.
    TooLarge,
    /// The body is made of many blocks with little output.
    TooManyBlocks,
}

impl DecodeError {
    pub(crate) fn broken(detail: &'static str) -> Self {
        Self::Broken(Cow::Borrowed(detail))
    }
}

/// Builds a 413 for a body that is made of many blocks with little output.
pub(crate) fn too_many_blocks() -> ApiError {
    ApiError::new(
        StatusCode::PAYLOAD_TOO_LARGE,
        ErrorType::InvalidRequest,
        "body_too_complex",
        "The body is compressed in too many blocks for its size. Compress it without a flush behind every few bytes.",
    )
}

/// Builds a 400 for a body that is not in the encoding it names.
pub(crate) fn invalid_encoding(detail: Cow<'static, str>) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        "invalid_encoding",
        detail,
    )
}
