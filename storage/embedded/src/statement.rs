//! Runs the statement of one request on a thread of its own.

use std::io::Read;

use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::Connection;
use crate::form::{FORM_BYTES_MAX, fields};
use crate::held_bytes::{HeldBytes, Reservation};
use crate::insert::{Insert, Values};
use crate::permitted::StatementPolicy;
use crate::request::{QueryRequest, quoted_name};
use crate::select;
use crate::session::Sessions;
use crate::sql::{FormatClause, StatementParts, split_statement};
use crate::statement_progress::{QueryStarted, StatementEnded};
use crate::stop;
use crate::upload::{Upload, decode_body, from_io};

/// Longest statement without its rows, bytes; the engine's default of `max_query_size`.
const QUERY_BYTES_DEFAULT: usize = 262_144;
/// Longest statement whatever its settings, bytes: it is checked and kept in this process's memory.
const QUERY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes reserved for each of a long text: it is copied several times while it is checked.
const BYTES_PER_TEXT_BYTE: usize = 4;
const FORMAT_DEFAULT: &str = "TabSeparated";

/// One statement with everything that it needs to run.
pub(crate) struct Statement {
    pub(crate) request: QueryRequest,
    /// Identifies the statement in the engine's process list, so that it can be stopped.
    pub(crate) tag: String,
    pub(crate) upload: Upload,
    /// `Content-Encoding` of the body.
    pub(crate) encoding: Option<String>,
    /// Boundary of the body's fields, if it is a form.
    pub(crate) form: Option<String>,
    /// Budget of long texts and of large compressed blocks.
    pub(crate) memory: HeldBytes,
    pub(crate) started: oneshot::Sender<QueryStarted>,
}

// === impl Statement ===

impl Statement {
    /// Runs the statement to its end. Blocks.
    pub(crate) fn run(
        self,
        engine: &Engine,
        sessions: &Sessions,
    ) -> Result<StatementEnded, Exception> {
        let Self {
            mut request,
            tag,
            upload,
            encoding,
            form,
            memory,
            started,
        } = self;
        // Some decoders read at once, so they are created here, where blocking is allowed.
        let mut body = decode_body(upload, encoding.as_deref(), request.decompress, &memory)?;
        let mut reservation = memory.reservation();
        if let Some(boundary) = form {
            read_form(&mut request, &mut body, &boundary, &mut reservation)?;
        }
        let mut lease = sessions.lease(engine, request.session.as_ref())?;
        let undo = lease.is_session().then(|| undo_statement(&request));
        let outcome = prepare(&mut lease.connection, &request, &tag).and_then(|()| {
            Prepared {
                request,
                body,
                reservation,
                started,
            }
            .run(&mut lease.connection, &engine.policy)
        });
        if let Some(sql) = undo
            && lease
                .connection
                .query(sql.as_bytes(), "", &Default::default())
                .is_ok()
        {
            lease.keep();
        }
        outcome
    }
}

/// Statement whose connection has its database and settings.
struct Prepared {
    request: QueryRequest,
    body: Box<dyn Read + Send>,
    /// Memory of the text, if it is long.
    reservation: Reservation,
    started: oneshot::Sender<QueryStarted>,
}

/// Error for a statement that reads or writes a file of the server.
fn no_files(words: &str) -> Exception {
    Exception::new(
        358,
        &format!(
            "{words} is not allowed: send the rows with the request, or take them from its answer"
        ),
        "INTO_OUTFILE_NOT_ALLOWED",
    )
}

// === impl Prepared ===

impl Prepared {
    fn run(
        mut self,
        connection: &mut Connection,
        policy: &StatementPolicy,
    ) -> Result<StatementEnded, Exception> {
        let (text, parts) = self.read_text()?;
        match parts {
            StatementParts::Insert {
                head,
                format,
                data_at,
            } => {
                policy.check(&head, &self.request.parameters.0)?;
                let first = text.get(data_at..).unwrap_or_default();
                let values = Values::read(&head, &format, first, &mut self.body)?;
                let is_restricted = values.check(connection, policy)?;
                let parameters = &self.request.parameters;
                let insert = Insert {
                    head: &head,
                    format: &format,
                    first: &values.first,
                    parameters,
                };
                let finished = insert.run(connection, &mut self.body);
                if is_restricted {
                    Values::allow_expressions(connection)?;
                }
                Ok(StatementEnded {
                    finished: finished?,
                    format,
                })
            }
            StatementParts::Other {
                file: Some(words), ..
            } => Err(no_files(words)),
            StatementParts::Other {
                format, body_end, ..
            } => self.run_without_rows(connection, policy, &text, (format, body_end)),
        }
    }

    /// Runs a statement without rows; the last argument holds its format clause and the end of its
    /// body.
    fn run_without_rows(
        self,
        connection: &mut Connection,
        policy: &StatementPolicy,
        text: &[u8],
        (format, body_end): (Option<FormatClause>, usize),
    ) -> Result<StatementEnded, Exception> {
        let default = self
            .request
            .default_format
            .as_deref()
            .unwrap_or(FORMAT_DEFAULT);
        let ended = |finished, format: String| StatementEnded { finished, format };
        if let Some(id) = stop::query_id(text) {
            return stop::run(connection, id).map(|finished| ended(finished, default.to_owned()));
        }
        policy.check(text, &self.request.parameters.0)?;
        let analyzed = connection.analyze(text);
        if analyzed.statement_count > 1 {
            return Err(Exception::new(
                62,
                "Syntax error: Multi-statements are not allowed",
                "SYNTAX_ERROR",
            ));
        }
        let parameters = &self.request.parameters;
        if analyzed.reads_only {
            let text = select::SelectParts {
                sql: text,
                body_end,
                format: format.as_ref(),
                default,
            };
            return select::run(connection, &text, parameters, self.started);
        }
        let finished = connection.query(text, default, parameters)?;
        let named = format.map_or(default.to_owned(), |clause| clause.name);
        Ok(ended(finished, named))
    }

    /// Reads the statement: the `query` parameter, a line break, and as much of the body as belongs
    /// to it.
    fn read_text(&mut self) -> Result<(Vec<u8>, StatementParts), Exception> {
        let mut text = std::mem::take(&mut self.request.query).into_bytes();
        if !text.is_empty() {
            text.push(b'\n');
            let found = split_statement(&text);
            if matches!(found, StatementParts::Insert { .. }) {
                return Ok((text, found));
            }
        }
        let limit = self.query_bytes_max().max(text.len());
        read_up_to(&mut self.body, &mut text, limit, &mut self.reservation)?;
        let found = split_statement(&text);
        if text.len() > limit && !matches!(found, StatementParts::Insert { .. }) {
            let message = format!(
                "Syntax error: Max query size exceeded ({limit} bytes; setting max_query_size)"
            );
            return Err(Exception::new(62, &message, "SYNTAX_ERROR"));
        }
        Ok((text, found))
    }

    fn query_bytes_max(&self) -> usize {
        let setting = self
            .request
            .settings
            .iter()
            .rev()
            .find(|(name, _)| name == "max_query_size");
        setting
            .and_then(|(_, value)| value.parse().ok())
            .map_or(QUERY_BYTES_DEFAULT, |bytes: usize| {
                bytes.min(QUERY_BYTES_MAX)
            })
    }
}

fn prepare(
    connection: &mut Connection,
    request: &QueryRequest,
    tag: &str,
) -> Result<(), Exception> {
    let none = Default::default();
    if let Some(database) = request.database.as_deref().filter(|name| !name.is_empty()) {
        connection.query(
            format!("USE {}", quoted_name(database)).as_bytes(),
            "",
            &none,
        )?;
    }
    connection.query(request.set_statement(tag).as_bytes(), "", &none)?;
    Ok(())
}

/// SET statement that resets a request's settings, which hold for that request only, even in a
/// session. A setting that the session had SET itself goes back to its default, not to that value.
/// A setting that does not exist was refused before.
fn undo_statement(request: &QueryRequest) -> String {
    let names = request
        .settings
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| *name != "log_comment");
    let list: String = names.map(|name| format!(", {name} = DEFAULT")).collect();
    format!("SET log_comment = DEFAULT{list}")
}

/// Appends what is read until the text has `limit` bytes and one more. What is longer than most
/// statements reserves memory as it grows.
fn read_up_to(
    body: &mut dyn Read,
    text: &mut Vec<u8>,
    limit: usize,
    reservation: &mut Reservation,
) -> Result<(), Exception> {
    let mut end = limit.min(QUERY_BYTES_DEFAULT);
    loop {
        let remaining = (end + 1).saturating_sub(text.len()) as u64;
        (&mut *body)
            .take(remaining)
            .read_to_end(text)
            .map_err(|error| from_io(&error))?;
        if text.len() <= end || end == limit {
            return Ok(());
        }
        end = limit.min(end * 2);
        if !reservation.reserve(end * BYTES_PER_TEXT_BYTE) {
            let message = "Too many simultaneous queries of more than 256 KiB";
            return Err(Exception::new(
                202,
                message,
                "TOO_MANY_SIMULTANEOUS_QUERIES",
            ));
        }
    }
}

/// Takes the query and parameters from a form, reading the body to its end.
fn read_form(
    request: &mut QueryRequest,
    body: &mut dyn Read,
    boundary: &str,
    reservation: &mut Reservation,
) -> Result<(), Exception> {
    let mut bytes = Vec::new();
    read_up_to(body, &mut bytes, FORM_BYTES_MAX, reservation)?;
    for (name, value) in fields(&bytes, boundary)? {
        match name.as_str() {
            "query" => request.query.push_str(&value),
            _ => request.add_parameter(&name, value)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_share_a_budget_and_ordinary_ones_need_none() {
        const ONE: usize = QUERY_BYTES_DEFAULT;
        let table = [
            // Bytes sent, limit of the text, bytes reserved by others, bytes read.
            (0, ONE, 4, Some(0)),
            (ONE, ONE, 4, Some(ONE)),
            (3 * ONE, ONE, 4, Some(ONE + 1)),
            (3 * ONE, 20, 4, Some(21)),
            (ONE, 8 * ONE, 4, Some(ONE)),
            (ONE + 1, 8 * ONE, 2, Some(ONE + 1)),
            (ONE + 1, 8 * ONE, 3, None),
            (4 * ONE, 8 * ONE, 0, Some(4 * ONE)),
            (4 * ONE + 1, 8 * ONE, 0, None),
            (8 * ONE, 4 * ONE, 0, Some(4 * ONE + 1)),
        ];
        for (sent, limit, reserved, expected) in table {
            let budget = HeldBytes::new(4 * ONE * BYTES_PER_TEXT_BYTE);
            let mut of_others = budget.reservation();
            assert!(of_others.reserve(reserved * ONE * BYTES_PER_TEXT_BYTE));
            let (bytes, mut text) = (vec![b'a'; sent], Vec::new());
            let mut body = bytes.as_slice();
            let mut reservation = budget.reservation();
            let read = read_up_to(&mut body, &mut text, limit, &mut reservation);
            let read = read.map(|()| text.len());
            assert_eq!(
                read.as_ref().ok(),
                expected.as_ref(),
                "{sent} of {limit}, {reserved} reserved: {read:?}"
            );
            assert!(read.is_ok() || read.is_err_and(|error| error.code == 202));
        }
    }
}
