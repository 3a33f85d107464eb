//! What went wrong, for the customer.
//!
//! A server's own words are not passed on: they may name the user, which is secret, or quote rows.
//! Its code is, as it says more than we could.

use super::server::Server;
use crate::error::{ExportError, Outlook};
use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

/// Why a statement was not carried out.
pub(super) fn of_statement(server: &Server, error: &Error) -> ExportError {
    match error.as_db_error() {
        Some(said) => of_code(server, said),
        None => lost(server),
    }
}

/// Why we were not let in.
pub(super) fn of_login(server: &Server, error: &Error) -> ExportError {
    match error.as_db_error() {
        Some(said) => of_code(server, said),
        // What the driver says of TLS and of passwords has no code.
        None if is_about_tls(error) => ExportError::hopeless(format!(
            "TLS with the {} server failed. It must speak TLS, with a certificate for its name; \
             one that it signed itself is taken if has_self_signed_cert is set.",
            server.product(),
        )),
        None if is_about_login(error) => refused(server),
        None => lost(server),
    }
}

/// The connection has gone.
pub(super) fn lost(server: &Server) -> ExportError {
    let product = server.product();
    ExportError::retry(format!("The connection to the {product} server was lost."))
}

/// The server took longer than we wait.
pub(super) fn late(server: &Server) -> ExportError {
    let product = server.product();
    ExportError::retry(format!("The {product} server did not answer in time."))
}

fn refused(server: &Server) -> ExportError {
    ExportError::hopeless(format!(
        "The {} server did not accept the user and the password.",
        server.product()
    ))
}

fn is_about_tls(error: &Error) -> bool {
    // The driver has no other way to tell.
    error.to_string().contains("TLS")
}

fn is_about_login(error: &Error) -> bool {
    error.to_string().contains("authentication")
}

fn of_code(server: &Server, said: &DbError) -> ExportError {
    let (outlook, what) = meaning(server, said.code());
    let place = place(said);
    let (product, code) = (server.product(), said.code().code());
    ExportError {
        outlook,
        message: format!("{what}{place} ({product}: {code})"),
    }
}

/// Which of the customer's own things it is about.
fn place(said: &DbError) -> String {
    let named = [("column", said.column()), ("constraint", said.constraint())];
    let named = named
        .iter()
        .filter_map(|(kind, name)| Some((kind, (*name)?)));
    named
        .map(|(kind, name)| format!(" It is about the {kind} {name}."))
        .collect()
}

fn meaning(server: &Server, code: &SqlState) -> (Outlook, String) {
    let hopeless = |what: &str| (Outlook::Hopeless, what.to_owned());
    let retry = |what: &str| (Outlook::Retry, what.to_owned());
    let (database, schema) = (&server.database, &server.schema);
    match code.code() {
        "28P01" | "28000" => (Outlook::Hopeless, refused(server).message),
        "3D000" => hopeless(&format!("There is no database {database}.")),
        "3F000" => hopeless(&format!("There is no schema {schema}.")),
        "42501" => hopeless(&format!(
            "The user has not the rights: it needs USAGE and CREATE on the schema {schema}, \
             TEMPORARY on the database {database}, and SELECT, INSERT, UPDATE and DELETE on the \
             table.",
        )),
        // Behind a pooler that keeps no sessions, our temporary table is in another one.
        "42P01" => retry(
            "The table was taken away meanwhile, or a pooler is in between that gives each transaction another \
             session: connect to the server itself, or have sessions pooled.",
        ),
        "42703" | "42804" => hopeless("The table has not the columns of events."),
        "53100" => retry("The server's disk is full."),
        "53300" => retry("The server has too many connections."),
        "55P03" => retry("Others held the table for too long."),
        "57014" => retry("A statement took too long and was stopped."),
        other => match other.get(..2).unwrap_or_default() {
            "08" | "53" | "57" | "58" | "XX" => retry("The server cannot serve us now."),
            "25" => retry("The server takes no changes now."),
            "40" => retry("Others changed the same rows."),
            "22" => hopeless("A value does not fit into its column."),
            "23" => hopeless("A constraint of the table does not let a row in."),
            "54" => hopeless("A row is beyond the server's limits."),
            "0A" | "42" => hopeless("The server does not understand what is needed."),
            _ => retry("The server refused."),
        },
    }
}
