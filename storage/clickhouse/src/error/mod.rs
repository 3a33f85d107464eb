//! Outcomes of failed inserts: the meaning of an error for the rows.
//!
//! An insert that failed is in one of four states, and the shipper treats each differently. When in
//! doubt the state is [`InsertOutcome::Unknown`]: that costs one query, a wrong guess would cost
//! rows.

use crate::tls;
use std::error::Error as StdError;
use std::fmt;

/// Beginnings of ClickHouse's exceptions.
const EXCEPTION_STARTS: [&str; 3] = [
    "Code: ",
    "Poco::Exception. Code: ",
    "std::exception. Code: ",
];

/// State of the rows of an insert that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InsertOutcome {
    /// The rows may be stored: the answer was lost, late, or does not tell.
    Unknown,
    /// The rows are not stored, and trying again later may help.
    NotStored,
    /// The rows could not be read, so this try did not store them; another may help.
    Unread,
    /// The rows can never be read again, and this try did not store them.
    Lost,
    /// The server could not read the rows, and never will.
    BadData,
    /// Success was answered without proof that ClickHouse did: the rows may be stored.
    Unproven,
    /// The rows are not stored, and trying again helps only after an operator changes something: a
    /// password, a right, a table, a certificate.
    Misconfigured,
    /// A gateway before ClickHouse takes no request this large: ClickHouse has hardly seen the
    /// rows, and a smaller insert may be taken.
    TooLarge,
}

impl InsertOutcome {
    /// Name of the outcome in metrics.
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
            Self::TooLarge => "too_large",
        }
    }
}

/// An insert that was not answered with success.
#[derive(Clone, Debug)]
pub struct InsertError {
    /// State of the rows.
    pub outcome: InsertOutcome,
    /// ClickHouse's exception code, when it gave one.
    pub code: Option<u32>,
    /// Message for the log, not for clients.
    pub message: String,
}

impl InsertError {
    /// Error of a success that need not be ClickHouse's.
    pub(crate) fn unproven(message: impl Into<String>) -> Self {
        Self {
            outcome: InsertOutcome::Unproven,
            code: None,
            message: message.into(),
        }
    }

    /// Returns true if an answer that leaves the outcome open may be about these rows: it is not
    /// known to be about the server alone.
    #[must_use]
    pub fn may_be_of_the_rows(&self) -> bool {
        match self.outcome {
            InsertOutcome::Unknown => self.code.is_some_and(|code| !is_of_the_server(code)),
            InsertOutcome::TooLarge => true,
            _ => false,
        }
    }

    /// Returns true if another host of the cluster may do better: not if the rows could not be
    /// read.
    pub(crate) fn is_of_the_host(&self) -> bool {
        match self.outcome {
            InsertOutcome::Unread | InsertOutcome::Lost | InsertOutcome::TooLarge => false,
            _ => is_of_the_host(self.code, &self.message),
        }
    }

    /// Returns true if an exception about rows that cannot be read may be that of a connection
    /// between hosts that ended: its text may have been lost.
    #[must_use]
    pub fn may_be_of_a_connection(&self) -> bool {
        self.code.is_some_and(is_of_a_reader)
    }

    /// Returns true if fewer rows may be taken: the server has too little memory for the insert, or
    /// a gateway takes no request this large.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        // MEMORY_LIMIT_EXCEEDED
        self.code == Some(241) || self.outcome == InsertOutcome::TooLarge
    }

    /// Returns true if the database or a table is missing, which applying the migrations mends.
    #[must_use]
    pub fn schema_is_missing(&self) -> bool {
        self.code.is_some_and(schema_is_missing)
    }

    /// Returns true if the server, or one of its shards, does not know a column of the insert.
    #[must_use]
    pub fn is_of_a_column(&self) -> bool {
        // THERE_IS_NO_COLUMN, NOT_FOUND_COLUMN_IN_BLOCK, NO_SUCH_COLUMN_IN_TABLE,
        // UNKNOWN_IDENTIFIER.
        matches!(self.code, Some(8 | 10 | 16 | 47))
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
        let code = match &error {
            clickhouse::error::Error::BadResponse(text) => code_of_insert(text),
            _ => None,
        };
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

/// Describes the error and its causes in one line, shortened: ClickHouse repeats the statement in
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

/// Advice on a connection that failed in the TLS handshake.
pub(crate) fn tls_advice(error: &clickhouse::error::Error) -> Option<&'static str> {
    match error {
        clickhouse::error::Error::Network(source) if never_connected(source.as_ref()) => {
            tls::advice(source.as_ref())
        }
        _ => None,
    }
}

/// Returns true if there was no connection, so that not one byte can have arrived.
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

/// Parses the number in `Code: 252. DB::Exception: …`, if the text begins so. In the middle of a
/// text it may be anybody's.
pub(crate) fn code_in(text: &str) -> Option<u32> {
    let mut starts = EXCEPTION_STARTS.iter();
    let rest = starts.find_map(|start| text.strip_prefix(*start))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Parses the code of an insert's exception. The end of a connection between hosts has the codes of
/// rows that cannot be read, and is returned as NETWORK_ERROR.
fn code_of_insert(text: &str) -> Option<u32> {
    let code = code_in(text)?;
    match is_of_a_reader(code) && text.contains("while receiving packet from") {
        true => Some(210),
        false => Some(code),
    }
}

/// Returns true for exceptions of whatever reads bytes, be it an insert's body or a packet.
const fn is_of_a_reader(code: u32) -> bool {
    // ATTEMPT_TO_READ_AFTER_EOF, CANNOT_READ_ALL_DATA, CHECKSUM_DOESNT_MATCH, INCORRECT_DATA,
    // CANNOT_DECOMPRESS, UNKNOWN_CODEC.
    matches!(code, 32 | 33 | 40 | 117 | 271 | 432)
}

pub(crate) const fn schema_is_missing(code: u32) -> bool {
    // UNKNOWN_TABLE, UNKNOWN_DATABASE
    matches!(code, 60 | 81)
}

/// Returns true for exceptions that are never about an insert's rows.
const fn is_of_the_server(code: u32) -> bool {
    // NETWORK_ERROR, QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING, NO_ZOOKEEPER, ABORTED,
    // TABLE_IS_READ_ONLY, NOT_ENOUGH_SPACE, ALL_CONNECTION_TRIES_FAILED, TOO_FEW_LIVE_REPLICAS,
    // UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE, UNKNOWN_STATUS_OF_INSERT, QUERY_WAS_CANCELLED,
    // CANNOT_SCHEDULE_TASK, SYSTEM_ERROR, KEEPER_EXCEPTION.
    matches!(
        code,
        210 | 216 | 225 | 236 | 242 | 243 | 279 | 285 | 286 | 319 | 394 | 425 | 439 | 999
    )
}

/// Classifies an exception by the state of the rows. An exception that is not listed may have been
/// thrown after the part was stored (by a view, by a quorum, by a limit), hence is unknown.
pub(crate) fn outcome_of_answer(code: Option<u32>, text: &str) -> InsertOutcome {
    match code {
        // One code, two meanings. Too many months in one insert is a fault of the block, and is
        // found before anything is stored; too many parts in the table means that inserts come too
        // fast.
        Some(252) if text.contains("partitions for single INSERT") => InsertOutcome::BadData,
        // TOO_MANY_PARTS, TOO_MANY_SIMULTANEOUS_QUERIES: both refused before anything is read.
        Some(252 | 202) => InsertOutcome::NotStored,
        // The rows cannot be read: CANNOT_PARSE_TEXT, CANNOT_PARSE_QUOTED_STRING,
        // CANNOT_PARSE_INPUT_ASSERTION_FAILED, ATTEMPT_TO_READ_AFTER_EOF, CANNOT_READ_ALL_DATA,
        // CANNOT_PARSE_DATE, CANNOT_PARSE_DATETIME, CANNOT_PARSE_NUMBER, TOO_LARGE_STRING_SIZE,
        // ARGUMENT_OUT_OF_BOUND, INCORRECT_DATA, TOO_LARGE_ARRAY_SIZE,
        // VALUE_IS_OUT_OF_RANGE_OF_DATA_TYPE, VIOLATED_CONSTRAINT.
        Some(6 | 26 | 27 | 32 | 33 | 38 | 41 | 69 | 72 | 117 | 128 | 131 | 321 | 469) => {
            InsertOutcome::BadData
        }
        // The rows cannot be decompressed: CHECKSUM_DOESNT_MATCH, CANNOT_DECOMPRESS, UNKNOWN_CODEC.
        Some(40 | 271 | 432) => InsertOutcome::BadData,
        // THERE_IS_NO_COLUMN, NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER, UNKNOWN_TABLE,
        // SYNTAX_ERROR, UNKNOWN_FORMAT, UNKNOWN_DATABASE, UNKNOWN_SETTING, READONLY,
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, IP_ADDRESS_NOT_ALLOWED, ACCESS_DENIED,
        // AUTHENTICATION_FAILED.
        Some(8 | 16 | 47 | 60 | 62 | 73 | 81 | 115 | 164 | 192..=195 | 497 | 516) => {
            InsertOutcome::Misconfigured
        }
        Some(_) => InsertOutcome::Unknown,
        // Not from ClickHouse: a proxy answered, or another server. Most proxies have a limit on
        // bodies, nginx of 1 MiB unless told otherwise.
        None if text.starts_with("413 ") => InsertOutcome::TooLarge,
        None => InsertOutcome::Unknown,
    }
}

/// Returns true if the error with this code and message is of the host that was asked, so that
/// another one may do better.
pub(crate) fn is_of_the_host(code: Option<u32>, message: &str) -> bool {
    match code {
        // Nobody answered in time, or not ClickHouse.
        None => true,
        // NO_ZOOKEEPER, ABORTED (as when it shuts down), TABLE_IS_READ_ONLY, KEEPER_EXCEPTION: the
        // host has lost its Keeper, or ends.
        Some(225 | 236 | 242 | 999) => true,
        // DNS_ERROR, SOCKET_TIMEOUT, NETWORK_ERROR, ALL_CONNECTION_TRIES_FAILED: it may be the only
        // one that cannot reach a shard. TOO_MANY_SIMULTANEOUS_QUERIES: it is busy.
        Some(198 | 202 | 209 | 210 | 279) => true,
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, IP_ADDRESS_NOT_ALLOWED,
        // AUTHENTICATION_FAILED, of a shard: the host may have a wrong password for it.
        Some(192..=195 | 516) => message.contains("Received from "),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests;
