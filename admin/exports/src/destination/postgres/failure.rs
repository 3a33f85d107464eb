//! Errors of PostgreSQL and Redshift, in words for the customer.
//!
//! A server's message is not passed on: it may name the user, which is secret, or quote rows. Its
//! code is passed on.

use super::server::Server;
use crate::error::{ExportError, ExportErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// Error for a statement that was not carried out.
pub(super) fn of_statement(server: &Server, error: &Error) -> ExportError {
    match error.as_db_error() {
        Some(said) => of_code(server, said),
        None => connection_lost(server),
    }
}

/// Error for a failed login.
pub(super) fn of_login(server: &Server, error: &Error) -> ExportError {
    match error.as_db_error() {
        Some(said) => of_code(server, said),
        // The driver's errors about TLS and passwords have no code.
        None if is_about_tls(error) => ExportError::permanent(format!(
            "TLS with the {} server failed. It must speak TLS, with a certificate for its name; a \
             self-signed certificate is accepted if has_self_signed_cert is set.",
            server.product(),
        )),
        None if is_about_login(error) => refused(server),
        None => connection_lost(server),
    }
}

/// Error for a lost connection.
pub(super) fn connection_lost(server: &Server) -> ExportError {
    let product = server.product();
    ExportError::retryable(format!("The connection to the {product} server was lost."))
}

/// Error for a server that took longer than the limit.
pub(super) fn timed_out(server: &Server) -> ExportError {
    let product = server.product();
    ExportError::retryable(format!("The {product} server did not answer in time."))
}

/// Error for a server whose answers have types that are not PostgreSQL's own.
pub(super) fn unknown_types(server: &Server) -> ExportError {
    let product = server.product();
    let message = format!("The {product} server sent an answer with unknown types.");
    ExportError::permanent(message)
}

fn refused(server: &Server) -> ExportError {
    ExportError::permanent(format!(
        "The {} server did not accept the user and the password.",
        server.product()
    ))
}

fn is_about_tls(error: &Error) -> bool {
    // The driver has no other sign of it.
    error.to_string().contains("TLS")
}

fn is_about_login(error: &Error) -> bool {
    error.to_string().contains("authentication")
}

fn of_code(server: &Server, said: &DbError) -> ExportError {
    let (kind, what) = classify(server, said.code());
    let object_hint = object_hint(said);
    let (product, code) = (server.product(), said.code().code());
    ExportError {
        kind,
        message: format!("{what}{object_hint} ({product}: {code})"),
    }
}

/// Sentence that names the customer's column or constraint.
fn object_hint(said: &DbError) -> String {
    let named = [("column", said.column()), ("constraint", said.constraint())];
    let named = named
        .iter()
        .filter_map(|(kind, name)| Some((kind, (*name)?)));
    named
        .map(|(kind, name)| format!(" It is about the {kind} {name}."))
        .collect()
}

fn classify(server: &Server, code: &SqlState) -> (ExportErrorKind, String) {
    let permanent = |what: &str| (ExportErrorKind::Permanent, what.to_owned());
    let retryable = |what: &str| (ExportErrorKind::Retryable, what.to_owned());
    let (database, schema) = (&server.database, &server.schema);
    match code.code() {
        "28P01" | "28000" => (ExportErrorKind::Permanent, refused(server).message),
        "3D000" => permanent(&format!("There is no database {database}.")),
        "3F000" => permanent(&format!("There is no schema {schema}.")),
        "42501" => permanent(&format!(
            "The user lacks rights: it needs USAGE and CREATE on the schema {schema}, \
             TEMPORARY on the database {database}, and SELECT, INSERT, UPDATE and DELETE on the \
             table.",
        )),
        // Behind a pooler that keeps no sessions, the temporary table may be in another session.
        "42P01" => retryable(
            "The table was dropped meanwhile, or a pooler in between gives each transaction another session: \
             connect to the server itself, or let the pooler pool sessions.",
        ),
        "42703" | "42804" => permanent("The table lacks columns that events need."),
        "53100" => retryable("The server's disk is full."),
        "53300" => retryable("The server has too many connections."),
        "55P03" => retryable("Other sessions locked the table for too long."),
        "57014" => retryable("A statement took too long and was stopped."),
        other => match other.get(..2).unwrap_or_default() {
            "08" | "53" | "57" | "58" | "XX" => retryable("The server cannot serve us now."),
            "25" => retryable("The server accepts no changes now."),
            "40" => retryable("Others changed the same rows."),
            "22" => permanent("A value does not fit into its column."),
            "23" => permanent("A constraint of the table rejects a row."),
            "54" => permanent("A row exceeds the server's limits."),
            "0A" | "42" => permanent("The server does not support a statement that exports need."),
            _ => retryable("The server refused."),
        },
    }
}
