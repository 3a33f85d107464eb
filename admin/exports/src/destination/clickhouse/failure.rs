//! Errors of a customer's ClickHouse, in words for the customer. Texts of the server are not
//! repeated: they may contain rows.

use crate::destination::calls::is_passing;
use crate::error::ExportError;
use reqwest::StatusCode;

/// Error for an answer with an exception of ClickHouse's, by its code.
pub(super) fn of_exception(code: u32) -> ExportError {
    let permanent = |why: &str| ExportError::permanent(format!("ClickHouse {why} (code {code})."));
    match code {
        // UNKNOWN_USER, WRONG_PASSWORD, REQUIRED_PASSWORD, AUTHENTICATION_FAILED
        192..=194 | 516 => permanent("did not accept the user or the password"),
        195 => permanent("does not let the user in from this address"),
        // READONLY, ACCESS_DENIED
        164 | 497 => permanent("does not grant the rights that the export needs"),
        81 => permanent("has no such database"),
        // Another try may have dropped the staging table.
        60 => ExportError::retryable(format!("ClickHouse lacks a table (code {code}).")),
        // THERE_IS_NO_COLUMN, NO_SUCH_COLUMN_IN_TABLE, UNKNOWN_IDENTIFIER
        8 | 16 | 47 => permanent("has a table with other columns than the export needs"),
        // UNKNOWN_SETTING, SETTING_CONSTRAINT_VIOLATION
        115 | 452 => permanent("does not allow a setting that the export needs"),
        // Rows or statements that it can never read.
        6 | 26 | 27 | 36 | 38 | 41 | 43 | 44 | 48 | 50 | 53 | 62 | 70 | 72 | 117 => {
            permanent("refused a statement of the export")
        }
        _ => ExportError::retryable(format!("ClickHouse cannot do that now (code {code}).")),
    }
}

/// Error for an answer without an exception of ClickHouse's, by its status.
pub(super) fn of_status(status: StatusCode) -> ExportError {
    match status {
        status if is_passing(status) => {
            ExportError::retryable(format!("The server cannot be used now ({status})."))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => ExportError::permanent(format!(
            "The server did not accept the credentials ({status})."
        )),
        StatusCode::PAYLOAD_TOO_LARGE => ExportError::permanent(format!(
            "A proxy before ClickHouse takes no request of 8 MiB ({status})."
        )),
        status => ExportError::permanent(format!(
            "The url does not lead to the HTTP interface of ClickHouse ({status}); redirects are \
             not followed."
        )),
    }
}

/// Error for a success that need not be ClickHouse's.
pub(super) fn unproven() -> ExportError {
    ExportError::permanent(
        "What answers at the url is not ClickHouse, or a proxy removes X-ClickHouse-Query-Id.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ExportErrorKind;

    #[test]
    fn errors_that_the_customer_has_to_mend_are_permanent() {
        for code in [516, 195, 497, 81, 47, 452, 62] {
            let error = of_exception(code);
            assert_eq!(error.kind, ExportErrorKind::Permanent, "{error}");
            assert!(error.message.contains(&code.to_string()), "{error}");
        }
        for code in [60, 159, 202, 241, 252, 999] {
            assert_eq!(of_exception(code).kind, ExportErrorKind::Retryable);
        }
        for (status, kind) in [
            (502, ExportErrorKind::Retryable),
            (429, ExportErrorKind::Retryable),
            (401, ExportErrorKind::Permanent),
            (404, ExportErrorKind::Permanent),
            (302, ExportErrorKind::Permanent),
        ] {
            let status = StatusCode::from_u16(status).unwrap();
            assert_eq!(of_status(status).kind, kind, "{status}");
        }
    }
}
