//! Errors of ClickHouse, in words for the customer.

use super::error_codes::OF_QUERY;
use crate::error::ExportError;
use millrace_clickhouse::QueryError;
use thiserror::Error;

/// Error of a search for the windows of a range that have rows, in words for the customer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WindowSearchError {
    /// ClickHouse worked on the search for as long as it may. A retry helps if it was busy.
    #[error(
        "ClickHouse takes longer to find the windows of the range that have rows than it may: ask for a shorter \
         range or a narrower filter."
    )]
    TooLong,
    /// The search reached ClickHouse's limit of memory. A retry helps if others used the memory.
    #[error(
        "ClickHouse needs more memory to find the windows of the range that have rows than it may: ask for a \
         shorter range or a narrower filter, and ask the operator if that does not help."
    )]
    TooLarge,
    /// Any other error.
    #[error(transparent)]
    Rows(#[from] ExportError),
}

impl From<QueryError> for WindowSearchError {
    fn from(error: QueryError) -> Self {
        match error.code {
            Some(159 | 160) => Self::TooLong,
            Some(241) => Self::TooLarge,
            _ => Self::Rows(read_failure(&error, false)),
        }
    }
}

/// Code of `ACCESS_DENIED`: to a table, a function or a right that the query needs.
const ACCESS_DENIED: u32 = 497;

/// Converts an error of reading rows. ClickHouse's messages contain tables, hosts and our own
/// conditions, so only the error's name is passed on, and only for a query that the customer wrote.
#[must_use]
pub fn read_failure(error: &QueryError, is_of_customer: bool) -> ExportError {
    let told = error.code.filter(|_| is_of_customer).and_then(of_query);
    told.unwrap_or_else(|| ExportError::retryable("The rows could not be read from ClickHouse."))
}

/// Error for a query that cannot be run as it is; `None` for the server's own errors, which may
/// pass.
fn of_query(code: u32) -> Option<ExportError> {
    let message = match code {
        159 | 160 => "The query takes longer than a query of an export may.".to_owned(),
        241 => "The query needs more memory than a query of an export may.".to_owned(),
        158 | 307 | 396 => "The query answers more rows than a query of an export may.".to_owned(),
        ACCESS_DENIED => "ClickHouse refuses the query: ACCESS_DENIED. It needs something that exports may not use. \
             Leave that out, or ask the operator to grant it to the user that Millrace has in ClickHouse."
            .to_owned(),
        code => {
            let (_, name) = OF_QUERY.iter().find(|(known, _)| *known == code)?;
            format!("ClickHouse refuses the query: {name}.")
        }
    };
    Some(ExportError::permanent(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExportErrorKind;
    use millrace_clickhouse::QueryErrorKind;

    fn failure(code: Option<u32>, is_of_customer: bool) -> ExportError {
        let message = "Code: 47. DB::Exception: Unknown identifier x in scope SELECT x FROM \
                       millrace.events WHERE team_id = 2. (UNKNOWN_IDENTIFIER) (version 26.7.3)";
        let error = QueryError {
            code,
            kind: QueryErrorKind::Other,
            message: message.to_owned(),
        };
        let failure = read_failure(&error, is_of_customer);
        assert!(!failure.message.contains("millrace"), "{failure}");
        failure
    }

    #[test]
    fn customers_see_errors_of_their_query_and_nothing_of_the_server() {
        let table = [
            (
                Some(47),
                true,
                ExportErrorKind::Permanent,
                "UNKNOWN_IDENTIFIER",
            ),
            (Some(159), true, ExportErrorKind::Permanent, "longer"),
            (Some(160), true, ExportErrorKind::Permanent, "longer"),
            (Some(241), true, ExportErrorKind::Permanent, "memory"),
            (Some(158), true, ExportErrorKind::Permanent, "more rows"),
            (Some(396), true, ExportErrorKind::Permanent, "more rows"),
            (
                Some(497),
                true,
                ExportErrorKind::Permanent,
                "ask the operator",
            ),
            (
                Some(446),
                true,
                ExportErrorKind::Permanent,
                "FUNCTION_NOT_ALLOWED",
            ),
            (
                Some(675),
                true,
                ExportErrorKind::Permanent,
                "CANNOT_PARSE_IPV4",
            ),
            // The same codes for a statement without a customer's query.
            (
                Some(47),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
            (
                Some(159),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
            (
                Some(241),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
            (
                Some(497),
                false,
                ExportErrorKind::Retryable,
                "could not be read",
            ),
        ];
        for (code, is_of_customer, kind, words) in table {
            let failure = failure(code, is_of_customer);
            assert_eq!(failure.kind, kind, "{code:?}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }

    #[test]
    fn a_search_for_windows_knows_its_limits_from_other_failures() {
        let table = [
            (Some(159), WindowSearchError::TooLong, "shorter range"),
            (Some(160), WindowSearchError::TooLong, "shorter range"),
            (Some(241), WindowSearchError::TooLarge, "shorter range"),
            (
                Some(210),
                WindowSearchError::Rows(failure(None, false)),
                "could not be read",
            ),
            (
                None,
                WindowSearchError::Rows(failure(None, false)),
                "could not be read",
            ),
        ];
        for (code, expected, words) in table {
            let error = QueryError {
                code,
                ..QueryError::without_code("millrace.events")
            };
            let told = WindowSearchError::from(error);
            assert_eq!(told, expected, "{code:?}");
            let told = told.to_string();
            assert!(told.contains(words), "{told}");
            assert!(!told.contains("millrace"), "{told}");
        }
    }

    /// Errors of the server, its network, its disks and its settings.
    const OURS: &[(u32, &str)] = &[
        (3, "UNEXPECTED_END_OF_FILE"),
        (24, "CANNOT_WRITE_TO_OSTREAM"),
        (40, "CHECKSUM_DOESNT_MATCH"),
        (49, "LOGICAL_ERROR"),
        (60, "UNKNOWN_TABLE"),
        (76, "CANNOT_OPEN_FILE"),
        (81, "UNKNOWN_DATABASE"),
        (107, "FILE_DOESNT_EXIST"),
        (115, "UNKNOWN_SETTING"),
        (164, "READONLY"),
        (173, "CANNOT_ALLOCATE_MEMORY"),
        (192, "UNKNOWN_USER"),
        (198, "DNS_ERROR"),
        (201, "QUOTA_EXCEEDED"),
        (202, "TOO_MANY_SIMULTANEOUS_QUERIES"),
        (209, "SOCKET_TIMEOUT"),
        (210, "NETWORK_ERROR"),
        (216, "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING"),
        (236, "ABORTED"),
        (242, "TABLE_IS_READ_ONLY"),
        (243, "NOT_ENOUGH_SPACE"),
        (271, "CANNOT_DECOMPRESS"),
        (279, "ALL_CONNECTION_TRIES_FAILED"),
        (394, "QUERY_WAS_CANCELLED"),
        (452, "SETTING_CONSTRAINT_VIOLATION"),
        (473, "DEADLOCK_AVOIDED"),
        (516, "AUTHENTICATION_FAILED"),
        (745, "SERVER_OVERLOADED"),
        (999, "KEEPER_EXCEPTION"),
        (1001, "STD_EXCEPTION"),
        (1002, "UNKNOWN_EXCEPTION"),
        (424_242, "one of a later version"),
    ];

    #[test]
    fn passing_server_errors_are_retried() {
        for (code, name) in OURS {
            assert!(OF_QUERY.iter().all(|(known, _)| known != code), "{name}");
            assert_eq!(
                failure(Some(*code), true).kind,
                ExportErrorKind::Retryable,
                "{name}"
            );
        }
        assert_eq!(failure(None, true).kind, ExportErrorKind::Retryable);
    }

    #[test]
    fn an_invalid_query_fails_its_run_at_once_with_the_errors_name() {
        assert!(OF_QUERY.is_sorted_by(|a, b| a.0 < b.0), "each once");
        for (code, name) in OF_QUERY {
            let told = failure(Some(*code), true);
            assert_eq!(told.kind, ExportErrorKind::Permanent, "{name}");
            assert!(told.message.contains(name), "{told}");
            let own = failure(Some(*code), false);
            assert_eq!(own.kind, ExportErrorKind::Retryable, "{name}");
        }
    }
}
