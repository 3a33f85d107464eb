//! What an error of ClickHouse means for the customer.

use super::error_codes::OF_QUERY;
use crate::error::ExportError;
use millrace_clickhouse::QueryError;

/// `ACCESS_DENIED`: of a table, a function or a right that the query names.
const ACCESS_DENIED: u32 = 497;

/// Says what went wrong when rows were read. ClickHouse's own words name tables, hosts and other
/// people's conditions, so of those only the error's name is passed on, and only of a query that
/// the customer wrote.
#[must_use]
pub fn read_failure(error: &QueryError, is_of_customer: bool) -> ExportError {
    let told = error.code.filter(|_| is_of_customer).and_then(of_query);
    told.unwrap_or_else(|| ExportError::retry("The rows could not be read from ClickHouse."))
}

/// Failure of a query that cannot be run as it is; `None` for trouble of the server's, which may
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
    Some(ExportError::hopeless(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outlook;
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
    fn a_customer_is_told_what_is_theirs_to_mend_and_nothing_of_us() {
        let table = [
            (Some(47), true, Outlook::Hopeless, "UNKNOWN_IDENTIFIER"),
            (Some(159), true, Outlook::Hopeless, "longer"),
            (Some(160), true, Outlook::Hopeless, "longer"),
            (Some(241), true, Outlook::Hopeless, "memory"),
            (Some(158), true, Outlook::Hopeless, "more rows"),
            (Some(396), true, Outlook::Hopeless, "more rows"),
            (Some(497), true, Outlook::Hopeless, "ask the operator"),
            (Some(446), true, Outlook::Hopeless, "FUNCTION_NOT_ALLOWED"),
            (Some(675), true, Outlook::Hopeless, "CANNOT_PARSE_IPV4"),
            // The same of a statement that is all ours.
            (Some(47), false, Outlook::Retry, "could not be read"),
            (Some(159), false, Outlook::Retry, "could not be read"),
            (Some(241), false, Outlook::Retry, "could not be read"),
            (Some(497), false, Outlook::Retry, "could not be read"),
        ];
        for (code, is_of_customer, outlook, words) in table {
            let failure = failure(code, is_of_customer);
            assert_eq!(failure.outlook, outlook, "{code:?}");
            assert!(failure.message.contains(words), "{failure}");
        }
    }

    /// Trouble of the server's, its network, its disks and its settings.
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
    fn trouble_that_may_pass_is_tried_again() {
        for (code, name) in OURS {
            assert!(OF_QUERY.iter().all(|(known, _)| known != code), "{name}");
            assert_eq!(failure(Some(*code), true).outlook, Outlook::Retry, "{name}");
        }
        assert_eq!(failure(None, true).outlook, Outlook::Retry);
    }

    #[test]
    fn whatever_a_query_says_wrong_fails_its_run_at_once_with_the_name() {
        assert!(OF_QUERY.is_sorted_by(|a, b| a.0 < b.0), "each once");
        for (code, name) in OF_QUERY {
            let told = failure(Some(*code), true);
            assert_eq!(told.outlook, Outlook::Hopeless, "{name}");
            assert!(told.message.contains(name), "{told}");
            let own = failure(Some(*code), false);
            assert_eq!(own.outlook, Outlook::Retry, "{name}");
        }
    }
}
