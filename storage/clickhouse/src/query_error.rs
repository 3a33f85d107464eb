//! Errors of queries, with their kind and message.

use crate::InsertOutcome;
use crate::error::{
    code_in, described, exception_code, is_of_the_host, never_connected, outcome_of_answer,
    schema_is_missing, tls_advice,
};
use clickhouse::error::Error;
use std::error::Error as StdError;
use std::fmt;

/// ClickHouse's code `SYNTAX_ERROR`.
const SYNTAX_ERROR: u32 = 62;

/// Kind of an error, by the action that an operator has to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QueryErrorKind {
    /// Somebody has to change something: a password, a right, a table.
    Misconfigured,
    /// The TLS handshake fails until somebody changes something; with advice.
    Tls(&'static str),
    /// The hosts of a cluster cannot be used together: somebody has to change its definition or our
    /// settings.
    Cluster,
    /// The rows are those of another catalog's projects: somebody has to change a setting.
    OtherCatalog,
    /// There was no connection, so the server has seen nothing.
    NoConnection,
    /// The connection ended without an answer, or with bytes that are no HTTP.
    NoHttp,
    /// The HTTP server that answered is not ClickHouse, or has none at this path.
    NotClickHouse,
    /// Any other error.
    Other,
}

/// Error of a query or a schema change.
#[derive(Clone, Debug)]
pub struct QueryError {
    /// ClickHouse's exception code, when it gave one.
    pub code: Option<u32>,
    /// Kind of the error.
    pub kind: QueryErrorKind,
    /// Message for the log, not for clients.
    pub message: String,
}

impl QueryError {
    /// An error that ClickHouse has no code for.
    #[must_use]
    pub fn without_code(message: impl Into<String>) -> Self {
        Self {
            code: None,
            kind: QueryErrorKind::Other,
            message: message.into(),
        }
    }

    /// Returns true if the error is of the host that was asked, so that another one may do better.
    pub(crate) fn is_of_the_host(&self) -> bool {
        is_of_the_host(self.code, &self.message)
    }

    /// Cause of the error, which stays the same for as long as the error lasts: the message may
    /// contain times, or the statement.
    #[must_use]
    pub fn cause(&self) -> String {
        match (self.code, self.kind) {
            (Some(code), _) => format!("ClickHouse {code}"),
            (None, kind) => format!("{kind:?}"),
        }
    }

    /// Name of the error in metrics of inserts, before each of which there may be a query.
    #[must_use]
    pub const fn outcome_name(&self) -> &'static str {
        match self.kind {
            QueryErrorKind::Misconfigured
            | QueryErrorKind::Cluster
            | QueryErrorKind::OtherCatalog
            | QueryErrorKind::Tls(_) => InsertOutcome::Misconfigured.name(),
            QueryErrorKind::NoConnection
            | QueryErrorKind::NoHttp
            | QueryErrorKind::NotClickHouse
            | QueryErrorKind::Other => "question",
        }
    }

    /// ClickHouse's name of the error, like `UNKNOWN_IDENTIFIER`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.code?;
        let is_name = |text: &&str| {
            let is_letter =
                |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
            text.len() > 2 && text.bytes().all(is_letter)
        };
        let between = self
            .message
            .rsplit('(')
            .filter_map(|rest| rest.split(')').next());
        between.into_iter().find(is_name)
    }

    /// Reason in ClickHouse's words, without its code, its name of the error and its version.
    #[must_use]
    pub fn reason(&self) -> &str {
        let text = self.message.trim();
        let text = text
            .split_once("Exception: ")
            .map_or(text, |(_, rest)| rest);
        let end = text.rfind(" (version ").unwrap_or(text.len());
        let text = text.get(..end).unwrap_or(text);
        let Some(name) = self.name() else {
            return text;
        };
        let suffix = format!(" ({name})");
        text.strip_suffix(suffix.as_str()).unwrap_or(text)
    }

    /// Position of a syntax error in the statement, in bytes, from 1.
    #[must_use]
    pub fn position(&self) -> Option<u32> {
        if self.code != Some(SYNTAX_ERROR) {
            return None;
        }
        let (_, rest) = self.message.split_once("failed at position ")?;
        let end = rest.find(|letter: char| !letter.is_ascii_digit())?;
        rest.get(..end)?.parse().ok()
    }

    /// Returns true if the database or a table is missing, which applying the migrations mends.
    #[must_use]
    pub fn schema_is_missing(&self) -> bool {
        self.code.is_some_and(schema_is_missing)
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            QueryErrorKind::Tls(advice) => write!(f, "{advice} ({})", self.message),
            _ => f.write_str(&self.message),
        }
    }
}

impl StdError for QueryError {}

impl From<Error> for QueryError {
    fn from(error: Error) -> Self {
        Self {
            code: exception_code(&error),
            kind: kind_of(&error),
            message: described(&error),
        }
    }
}

fn kind_of(error: &Error) -> QueryErrorKind {
    match error {
        Error::BadResponse(text) => match (code_in(text), outcome_of_answer(code_in(text), text)) {
            (_, InsertOutcome::Misconfigured) => QueryErrorKind::Misconfigured,
            (None, _) => QueryErrorKind::NotClickHouse,
            _ => QueryErrorKind::Other,
        },
        Error::InvalidParams(_) | Error::Unsupported(_) => QueryErrorKind::Misconfigured,
        Error::Network(source) => match tls_advice(error) {
            Some(advice) => QueryErrorKind::Tls(advice),
            None if never_connected(source.as_ref()) => QueryErrorKind::NoConnection,
            None if is_no_http(source.as_ref()) => QueryErrorKind::NoHttp,
            None => QueryErrorKind::Other,
        },
        _ => QueryErrorKind::Other,
    }
}

/// Returns true if the connection ended without an answer, or with bytes that are no HTTP.
fn is_no_http(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.any(|cause| {
        let http = cause.downcast_ref::<hyper::Error>();
        let io = cause.downcast_ref::<std::io::Error>();
        http.is_some_and(|error| error.is_parse() || error.is_incomplete_message())
            || io.is_some_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_a_reason_and_a_position_without_names_and_versions() {
        let table = [
            (
                "Code: 62. DB::Exception: Syntax error: failed at position 23 (bad) (line 2, col 13): bad. \
                 Expected one of: token. (SYNTAX_ERROR) (version 26.7.2.1)",
                "Syntax error: failed at position 23 (bad) (line 2, col 13): bad. Expected one of: token.",
                Some(23),
            ),
            (
                "Code: 47. DB::Exception: Unknown `failed at position 5 `. (UNKNOWN_IDENTIFIER) (version 26.7.2.1)",
                "Unknown `failed at position 5 `.",
                None,
            ),
            ("502 Bad Gateway", "bad response: 502 Bad Gateway", None),
        ];
        for (text, reason, position) in table {
            let error = QueryError::from(Error::BadResponse(text.to_owned()));
            assert_eq!(error.reason(), reason, "{text}");
            assert_eq!(error.position(), position, "{text}");
        }
    }

    #[test]
    fn an_error_has_the_name_that_clickhouse_gives_it() {
        let table = [
            (
                "Code: 47. DB::Exception: No (x). (UNKNOWN_IDENTIFIER) (version 26.7.3.1 (official build))",
                Some("UNKNOWN_IDENTIFIER"),
            ),
            ("Code: 210. x. (NETWORK_ERROR)", Some("NETWORK_ERROR")),
            ("Code: 47. x (A)", None),
            ("502 Bad Gateway (PROXY)", None),
        ];
        let long = format!(
            "Code: 62. {}. (SYNTAX_ERROR) (version 26.7)",
            "x".repeat(9_000)
        );
        let table = table
            .into_iter()
            .chain([(long.as_str(), Some("SYNTAX_ERROR"))]);
        for (text, name) in table {
            let error = QueryError::from(Error::BadResponse(text.to_owned()));
            assert_eq!(error.name(), name, "{text}");
        }
    }
}
