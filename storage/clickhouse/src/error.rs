//! What an answer means for the rows.
//!
//! An insert that failed is in one of four states, and the shipper treats each differently. When
//! in doubt the state is [`InsertOutcome::Unknown`]: that costs one question, the others would
//! cost rows.

use crate::tls;
use std::error::Error as StdError;
use std::fmt;

/// What is known about the rows of an insert that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsertOutcome {
    /// The rows may be there: the answer was lost, late, or says nothing about it.
    Unknown,
    /// The rows are not there, and trying again later may help.
    NotStored,
    /// The rows could not be had, so this try did not store them; another may help.
    Unread,
    /// The rows could not be had, so this try did not store them, and they never will be.
    Lost,
    /// The server could not read the rows, and never will.
    BadData,
    /// Success was answered, by somebody who did not prove to be ClickHouse: the rows may be there.
    Unproven,
    /// The rows are not there, and trying again helps only when somebody changes something: a
    /// password, a right, a table, a certificate.
    Misconfigured,
}

impl InsertOutcome {
    /// The name of the outcome in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::NotStored => "not_stored",
            Self::Unread => "unread",
            Self::Lost => "lost",
            Self::BadData => "bad_data",
            Self::Unproven => "unproven",
            Self::Misconfigured => "misconfigured",
        }
    }
}

/// An insert that was not answered with success.
#[derive(Clone, Debug)]
pub struct InsertError {
    /// What that means for its rows.
    pub outcome: InsertOutcome,
    /// ClickHouse's exception code, when it gave one.
    pub code: Option<u32>,
    /// For the log, not for clients.
    pub message: String,
}

impl InsertError {
    /// Success that need not be ClickHouse's.
    pub(crate) fn unproven(message: impl Into<String>) -> Self {
        Self {
            outcome: InsertOutcome::Unproven,
            code: None,
            message: message.into(),
        }
    }

    /// Whether an exception that leaves open what became of the rows may be about these rows: one that is not
    /// known to be about the server alone.
    #[must_use]
    pub fn may_be_of_the_rows(&self) -> bool {
        self.outcome == InsertOutcome::Unknown
            && self.code.is_some_and(|code| !is_of_the_server(code))
    }

    /// Whether the server has too little memory for the insert.
    #[must_use]
    pub fn needs_memory(&self) -> bool {
        // MEMORY_LIMIT_EXCEEDED
        self.code == Some(241)
    }

    /// Whether the database or a table is missing, which applying the migrations mends.
    #[must_use]
    pub fn schema_is_missing(&self) -> bool {
        self.code.is_some_and(schema_is_missing)
    }
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for InsertError {}

impl From<clickhouse::error::Error> for InsertError {
    fn from(error: clickhouse::error::Error) -> Self {
        let code = exception_code(&error);
        let outcome = match &error {
            clickhouse::error::Error::BadResponse(text) => outcome_of_answer(code, text),
            clickhouse::error::Error::Network(source) if never_connected(source.as_ref()) => {
                match tls_advice(&error) {
                    Some(_) => InsertOutcome::Misconfigured,
                    None => InsertOutcome::NotStored,
                }
            }
            clickhouse::error::Error::InvalidParams(_)
            | clickhouse::error::Error::Unsupported(_) => InsertOutcome::Misconfigured,
            _ => InsertOutcome::Unknown,
        };
        let message = match tls_advice(&error) {
            Some(advice) => format!("{advice} ({})", described(&error)),
            None => described(&error),
        };
        Self {
            outcome,
            code,
            message,
        }
    }
}

/// The error and its causes in one line, not endlessly long: ClickHouse repeats the statement in
/// the middle, and names the error at the end.
pub(crate) fn described(error: &clickhouse::error::Error) -> String {
    const HEAD_CHARS_MAX: usize = 800;
    const TAIL_CHARS_MAX: usize = 200;
    let mut message = error.to_string();
    let mut cause = error.source().and_then(StdError::source);
    while let Some(source) = cause {
        message.push_str(": ");
        message.push_str(&source.to_string());
        cause = source.source();
    }
    let head = message.char_indices().nth(HEAD_CHARS_MAX);
    let tail = message.char_indices().nth_back(TAIL_CHARS_MAX);
    if let (Some((head, _)), Some((tail, _))) = (head, tail)
        && head < tail
    {
        message.replace_range(head..tail, " … ");
    }
    message
}

/// Advice on a connection that TLS kept from being made.
pub(crate) fn tls_advice(error: &clickhouse::error::Error) -> Option<&'static str> {
    match error {
        clickhouse::error::Error::Network(source) if never_connected(source.as_ref()) => {
            tls::advice(source.as_ref())
        }
        _ => None,
    }
}

/// Whether the connection was refused, so that not one byte can have arrived.
pub(crate) fn never_connected(error: &(dyn StdError + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(source) = cause {
        if let Some(client) = source.downcast_ref::<hyper_util::client::legacy::Error>() {
            return client.is_connect();
        }
        cause = source.source();
    }
    false
}

pub(crate) fn exception_code(error: &clickhouse::error::Error) -> Option<u32> {
    match error {
        clickhouse::error::Error::BadResponse(text) => code_in(text),
        _ => None,
    }
}

/// The number in `Code: 252. DB::Exception: …`.
pub(crate) fn code_in(text: &str) -> Option<u32> {
    let rest = text.split_once("Code: ")?.1;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

pub(crate) const fn schema_is_missing(code: u32) -> bool {
    // UNKNOWN_TABLE, UNKNOWN_DATABASE
    matches!(code, 60 | 81)
}

/// Exceptions that say nothing of an insert's rows, however often they come.
const fn is_of_the_server(code: u32) -> bool {
    // NETWORK_ERROR, QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING, NO_ZOOKEEPER, ABORTED, TABLE_IS_READ_ONLY,
    // NOT_ENOUGH_SPACE, ALL_CONNECTION_TRIES_FAILED, TOO_FEW_LIVE_REPLICAS,
    // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, UNKNOWN_STATUS_OF_INSERT, QUERY_WAS_CANCELLED,
    // CANNOT_SCHEDULE_TASK, SYSTEM_ERROR, KEEPER_EXCEPTION.
    matches!(
        code,
        210 | 216 | 225 | 236 | 242 | 243 | 279 | 285 | 286 | 319 | 394 | 425 | 439 | 999
    )
}

/// What an exception says of the rows. Anything that is not listed may have been thrown after the
/// part was stored (by a view, by a quorum, by a limit), hence is unknown.
pub(crate) fn outcome_of_answer(code: Option<u32>, text: &str) -> InsertOutcome {
    match code {
        // One code, two meanings. Too many months in one insert is a fault of the block, and is
        // found before anything is stored; too many parts in the table means: slower.
        Some(252) if text.contains("partitions for single INSERT") => InsertOutcome::BadData,
        // TOO_MANY_PARTS, TOO_MANY_SIMULTANEOUS_QUERIES: both refused at the door.
        Some(252 | 202) => InsertOutcome::NotStored,
        // The rows cannot be read: CANNOT_PARSE_TEXT, CANNOT_PARSE_QUOTED_STRING,
        // CANNOT_PARSE_INPUT_ASSERTION_FAILED, ATTEMPT_TO_READ_AFTER_EOF, CANNOT_READ_ALL_DATA,
        // CANNOT_PARSE_DATE, CANNOT_PARSE_DATETIME, CANNOT_PARSE_NUMBER, TOO_LARGE_STRING_SIZE,
        // ARGUMENT_OUT_OF_BOUND, INCORRECT_DATA, TOO_LARGE_ARRAY_SIZE,
        // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE, VIOLATED_CONSTRAINT.
        Some(6 | 26 | 27 | 32 | 33 | 38 | 41 | 69 | 72 | 117 | 128 | 131 | 321 | 469) => {
            InsertOutcome::BadData
        }
        // Nor decompressed: CHECKSUM_DOESNT_MATCH, CANNOT_DECOMPRESS, UNKNOWN_CODEC.
        Some(40 | 271 | 432) => InsertOutcome::BadData,
        // THERE_IS_NO_COLUMN, NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE,
        // SYNTAX_ERROR, UNKNOWN_FORMAT, UNKNOWN_DATABASE, UNKNOWN_SETTING, READONLY,
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, IP_ADDRESS_NOT_ALLOWED, ACCESS_DENIED,
        // AUTHENTICATION_FAILED.
        Some(8 | 16 | 47 | 60 | 62 | 73 | 81 | 115 | 164 | 192..=195 | 497 | 516) => {
            InsertOutcome::Misconfigured
        }
        Some(_) => InsertOutcome::Unknown,
        // Not ClickHouse's words: a proxy, or something else listens there.
        None => InsertOutcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QueryError;
    use clickhouse::error::Error;

    #[test]
    fn an_answer_says_what_became_of_the_rows() {
        use InsertOutcome::{BadData, Misconfigured, NotStored, Unknown};
        let table = [
            (
                "Code: 252. DB::Exception: Too many partitions for single INSERT block (more than 1)",
                Some(252),
                BadData,
            ),
            (
                "Code: 252. DB::Exception: Too many parts (3000) in all data parts",
                Some(252),
                NotStored,
            ),
            (
                "Code: 33. DB::Exception: Cannot read all data",
                Some(33),
                BadData,
            ),
            (
                "Code: 117. DB::Exception: Unexpected data",
                Some(117),
                BadData,
            ),
            (
                "Code: 516. DB::Exception: u: Authentication failed",
                Some(516),
                Misconfigured,
            ),
            (
                "Code: 60. DB::Exception: Table does not exist",
                Some(60),
                Misconfigured,
            ),
            (
                "Code: 241. DB::Exception: Memory limit exceeded",
                Some(241),
                Unknown,
            ),
            (
                "Code: 319. DB::Exception: Unknown status, client must retry",
                Some(319),
                Unknown,
            ),
            (
                "Code: 216. DB::Exception: Query with id = t is already running",
                Some(216),
                Unknown,
            ),
            ("502 Bad Gateway", None, Unknown),
            ("Code: banana", None, Unknown),
        ];
        for (text, code, outcome) in table {
            let error = InsertError::from(Error::BadResponse(text.to_owned()));
            assert_eq!((error.code, error.outcome), (code, outcome), "{text}");
        }
    }

    #[test]
    fn a_timeout_leaves_the_rows_unknown() {
        assert_eq!(
            InsertError::from(Error::TimedOut).outcome,
            InsertOutcome::Unknown
        );
    }

    #[test]
    fn a_missing_table_or_database_is_mended_by_migrating() {
        for (code, missing) in [(60, true), (81, true), (516, false)] {
            let error = QueryError::from(Error::BadResponse(format!("Code: {code}. x")));
            assert_eq!(error.schema_is_missing(), missing, "{code}");
        }
    }
}
