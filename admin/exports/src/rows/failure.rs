//! What an error of ClickHouse means for the customer.

use crate::error::ExportError;
use millrace_clickhouse::QueryError;

/// Says what went wrong when rows were read. ClickHouse's own words name tables, hosts and other
/// people's conditions, so of those only the error's name is passed on, and only of a query that
/// the customer wrote.
#[must_use]
pub fn read_failure(error: &QueryError, is_of_customer: bool) -> ExportError {
    match error.code {
        Some(159 | 160 | 209) if is_of_customer => {
            ExportError::hopeless("The query takes longer than a query of an export may.")
        }
        Some(241) if is_of_customer => {
            ExportError::hopeless("The query needs more memory than a query of an export may.")
        }
        Some(158 | 307 | 396) if is_of_customer => {
            ExportError::hopeless("The query answers more rows than a query of an export may.")
        }
        Some(code) if is_of_customer && is_of_query(code) => {
            let name = error.name().unwrap_or("an error");
            ExportError::hopeless(format!("ClickHouse refuses the query: {name}."))
        }
        _ => ExportError::retry("The rows could not be read from ClickHouse."),
    }
}

/// Whether an error comes from what a query says, not from how the server is.
const fn is_of_query(code: u32) -> bool {
    matches!(
        code,
        // Texts, numbers and dates that cannot be read as such: CANNOT_PARSE_TEXT and its kin.
        6 | 25..=27 | 32 | 38 | 41 | 69 | 70 | 72 | 131 | 376 | 427 | 467
        // Columns and aliases: NOT_FOUND_COLUMN_IN_BLOCK, UNKNOWN_IDENTIFIER, CYCLIC_ALIASES,
        // MULTIPLE_EXPRESSIONS_FOR_ALIAS, AMBIGUOUS_IDENTIFIER.
        | 8 | 10 | 15 | 16 | 47 | 174 | 179 | 207
        // Functions and types: BAD_ARGUMENTS, NUMBER_OF_ARGUMENTS_DOESNT_MATCH,
        // ILLEGAL_TYPE_OF_ARGUMENT, ILLEGAL_COLUMN, UNKNOWN_FUNCTION, TYPE_MISMATCH,
        // ILLEGAL_AGGREGATION, NOT_AN_AGGREGATE, NO_COMMON_TYPE, DECIMAL_OVERFLOW and so on.
        | 35 | 36 | 42..=44 | 46 | 48 | 50 | 53 | 58 | 63 | 80 | 128 | 133 | 152 | 153
        | 184 | 215 | 349 | 386 | 407
        // SYNTAX_ERROR, TOO_DEEP_AST, TOO_BIG_AST, TOO_DEEP_RECURSION, CANNOT_CONVERT_TYPE.
        | 62 | 167 | 168 | 306
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outlook;
    use millrace_clickhouse::QueryErrorKind;

    #[test]
    fn a_customer_is_told_what_is_theirs_to_mend_and_nothing_of_us() {
        let message = "Code: 47. DB::Exception: Unknown identifier x in scope SELECT x FROM \
                       millrace.events WHERE team_id = 2. (UNKNOWN_IDENTIFIER) (version 26.7.3)";
        let table = [
            (Some(47), true, Outlook::Hopeless, "UNKNOWN_IDENTIFIER"),
            (Some(159), true, Outlook::Hopeless, "longer"),
            (Some(241), true, Outlook::Hopeless, "memory"),
            (Some(396), true, Outlook::Hopeless, "more rows"),
            (Some(47), false, Outlook::Retry, "could not be read"),
            (Some(241), false, Outlook::Retry, "could not be read"),
            (Some(210), true, Outlook::Retry, "could not be read"),
            (None, true, Outlook::Retry, "could not be read"),
        ];
        for (code, is_of_customer, outlook, words) in table {
            let error = QueryError {
                code,
                kind: QueryErrorKind::Other,
                message: message.to_owned(),
            };
            let failure = read_failure(&error, is_of_customer);
            assert_eq!(failure.outlook, outlook, "{code:?}");
            assert!(failure.message.contains(words), "{failure}");
            assert!(!failure.message.contains("millrace"), "{failure}");
        }
    }
}
