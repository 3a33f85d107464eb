//! Runs the statement of one request on a thread of its own.

use std::io::Read;

use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::Connection;
use crate::form::{FORM_BYTES_MAX, fields};
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
/// Longest statement whatever its settings, bytes: it is judged and kept in memory of this process.
const QUERY_BYTES_MAX: usize = 16 * 1024 * 1024;
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
            started,
        } = self;
        // Some decoders read at once, so they are created here, where blocking is allowed.
        let mut body = decode_body(upload, encoding.as_deref(), request.decompress)?;
        if let Some(boundary) = form {
            read_form(&mut request, &mut body, &boundary)?;
        }
        let mut lease = sessions.lease(engine, request.session.as_ref())?;
        let undo = lease.is_session().then(|| undo_statement(&request));
        let outcome = prepare(&mut lease.connection, &request, &tag).and_then(|()| {
            Prepared {
                request,
                body,
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
        let remaining = (limit - text.len()) as u64 + 1;
        (&mut self.body)
            .take(remaining)
            .read_to_end(&mut text)
            .map_err(|error| from_io(&error))?;
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

/// Takes the query and parameters from a form, reading the body to its end.
fn read_form(
    request: &mut QueryRequest,
    body: &mut dyn Read,
    boundary: &str,
) -> Result<(), Exception> {
    let mut bytes = Vec::new();
    body.take(FORM_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| from_io(&error))?;
    for (name, value) in fields(&bytes, boundary)? {
        match name.as_str() {
            "query" => request.query.push_str(&value),
            _ => request.add_parameter(&name, value)?,
        }
    }
    Ok(())
}
