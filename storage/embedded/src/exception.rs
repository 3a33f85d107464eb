//! Error of a failed statement: the engine's code and text, and the HTTP status that a ClickHouse
//! server gives it.

use http::StatusCode;

/// Error with ClickHouse's number and wording. It goes to the client and to the log: the engine's
/// texts hold no secrets of ours.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Exception {
    pub(crate) code: u32,
    /// `Code: N. DB::Exception: … (NAME)`, without a line end.
    pub(crate) text: String,
}

impl Exception {
    /// Parses the engine's error text. One without a number, which comes from its client layer,
    /// gets 1002, unknown.
    pub(crate) fn from_engine(text: &str) -> Self {
        let text = text.trim_end();
        let code = text
            .strip_prefix("Code: ")
            .and_then(|rest| rest.split_once('.'))
            .and_then(|(number, _)| number.parse().ok());
        match code {
            Some(code) => Self {
                code,
                text: text.to_owned(),
            },
            None => Self::new(1002, text, "UNKNOWN_EXCEPTION"),
        }
    }

    /// Creates an error of this server rather than of the engine, in the engine's format.
    pub(crate) fn new(code: u32, message: &str, name: &str) -> Self {
        Self {
            code,
            text: format!("Code: {code}. DB::Exception: {message}. ({name})"),
        }
    }

    /// Body of the response; a server appends its version to every error.
    pub(crate) fn body(&self, version: &str) -> String {
        if self.text.contains("(version ") {
            format!("{}\n", self.text)
        } else {
            format!("{} (version {version})\n", self.text)
        }
    }

    /// HTTP status by the table of ClickHouse's `exceptionCodeToHTTPStatus.cpp`, and 503 for our
    /// own statement limit.
    pub(crate) fn status(&self) -> StatusCode {
        match self.code {
            194 => StatusCode::UNAUTHORIZED,
            192 | 193 | 497 | 512 | 516 => StatusCode::FORBIDDEN,
            // Bad arguments, parse errors, type mismatches.
            6 | 8 | 15 | 25 | 26 | 27 | 36 | 37 | 38 | 41 | 44 | 53 | 62 | 72 | 117 | 123 | 167
            | 168 | 223 | 321 | 376 | 427 | 441 | 675 | 676 => StatusCode::BAD_REQUEST,
            // Unknown tables, functions, identifiers, types, engines, databases, settings, formats,
            // roles.
            46 | 47 | 50 | 56 | 60 | 63 | 73 | 78 | 81 | 115 | 152 | 336 | 511 => {
                StatusCode::NOT_FOUND
            }
            159 => StatusCode::REQUEST_TIMEOUT,
            229 => StatusCode::PAYLOAD_TOO_LARGE,
            779 => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            48 => StatusCode::NOT_IMPLEMENTED,
            76 | 202 | 209 | 439 => StatusCode::SERVICE_UNAVAILABLE,
            381 => StatusCode::LENGTH_REQUIRED,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}
