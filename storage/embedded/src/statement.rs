//! Runs one request's statement on the thread that belongs to it.

use std::io::Read;
use std::os::fd::OwnedFd;

use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::exception::Exception;
use crate::ffi::{Connection, Finished};
use crate::form::{FORM_BYTES_MAX, fields};
use crate::insert::{Insert, Values};
use crate::permitted::Permitted;
use crate::request::{Asked, quoted_name};
use crate::select;
use crate::session::Sessions;
use crate::sql::{FormatClause, Shape, shape};
use crate::stop;
use crate::upload::{Upload, decoded, from_io};

/// Longest statement text without its rows, bytes; `max_query_size` of the engine.
const QUERY_BYTES_DEFAULT: usize = 262_144;
/// The longest statement, whatever its settings say, in bytes: it is judged, and kept in memory of ours.
const QUERY_BYTES_MAX: usize = 16 * 1024 * 1024;
const FORMAT_DEFAULT: &str = "TabSeparated";

/// A query has begun to answer: its rows come out of `pipe`.
pub(crate) struct Started {
    pub(crate) pipe: OwnedFd,
    pub(crate) format: String,
}

/// A statement has ended; for a query, the rows have gone through the pipe.
pub(crate) struct Ended {
    pub(crate) finished: Finished,
    pub(crate) format: String,
}

/// One statement with everything it needs.
pub(crate) struct Statement {
    pub(crate) asked: Asked,
    /// Marks it in the engine's process list, so that it can be stopped.
    pub(crate) tag: String,
    pub(crate) upload: Upload,
    /// `Content-Encoding` of the body.
    pub(crate) encoding: Option<String>,
    /// The boundary, if the body is a form.
    pub(crate) form: Option<String>,
    pub(crate) started: oneshot::Sender<Started>,
}

// === impl Statement ===

impl Statement {
    /// Runs it to its end. Blocks.
    pub(crate) fn run(self, engine: &Engine, sessions: &Sessions) -> Result<Ended, Exception> {
        let Self {
            mut asked,
            tag,
            upload,
            encoding,
            form,
            started,
        } = self;
        // Some decoders read at once, so they are made here, where waiting is allowed.
        let mut body = decoded(upload, encoding.as_deref(), asked.decompress)?;
        if let Some(boundary) = form {
            read_form(&mut asked, &mut body, &boundary)?;
        }
        let mut lease = sessions.lease(engine, asked.session.as_ref())?;
        let undo = lease.is_session().then(|| undo_statement(&asked));
        let outcome = prepare(&mut lease.connection, &asked, &tag).and_then(|()| {
            Prepared {
                asked,
                body,
                started,
            }
            .run(&mut lease.connection, &engine.permitted)
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

/// A statement whose connection has its database and settings.
struct Prepared {
    asked: Asked,
    body: Box<dyn Read + Send>,
    started: oneshot::Sender<Started>,
}

/// The refusal of a statement that reads or writes a file of the server.
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
        permitted: &Permitted,
    ) -> Result<Ended, Exception> {
        let (text, shape) = self.read_text()?;
        match shape {
            Shape::Insert {
                head,
                format,
                data_at,
            } => {
                permitted.check(&head, &self.asked.parameters.0)?;
                let first = text.get(data_at..).unwrap_or_default();
                let values = Values::read(&head, &format, first, &mut self.body)?;
                let limited = values.limit(connection, permitted)?;
                let parameters = &self.asked.parameters;
                let insert = Insert {
                    head: &head,
                    format: &format,
                    first: &values.first,
                    parameters,
                };
                let finished = insert.run(connection, &mut self.body);
                if limited {
                    Values::unlimit(connection)?;
                }
                Ok(Ended {
                    finished: finished?,
                    format,
                })
            }
            Shape::Other {
                file: Some(words), ..
            } => Err(no_files(words)),
            Shape::Other {
                format, body_end, ..
            } => self.other(connection, permitted, &text, (format, body_end)),
        }
    }

    /// Runs a statement that has no rows with it; the last of the arguments are its format and where it ends.
    fn other(
        self,
        connection: &mut Connection,
        permitted: &Permitted,
        text: &[u8],
        (format, body_end): (Option<FormatClause>, usize),
    ) -> Result<Ended, Exception> {
        let default = self
            .asked
            .default_format
            .as_deref()
            .unwrap_or(FORMAT_DEFAULT);
        let ended = |finished, format: String| Ended { finished, format };
        if let Some(id) = stop::query_id(text) {
            return stop::run(connection, id).map(|finished| ended(finished, default.to_owned()));
        }
        permitted.check(text, &self.asked.parameters.0)?;
        let analyzed = connection.analyze(text);
        if analyzed.statement_count > 1 {
            return Err(Exception::new(
                62,
                "Syntax error: Multi-statements are not allowed",
                "SYNTAX_ERROR",
            ));
        }
        let parameters = &self.asked.parameters;
        if analyzed.reads_only {
            let text = select::Text {
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

    /// Reads the statement: the `query` parameter, a line break, and of the body as much as belongs to the statement.
    fn read_text(&mut self) -> Result<(Vec<u8>, Shape), Exception> {
        let mut text = std::mem::take(&mut self.asked.query).into_bytes();
        if !text.is_empty() {
            text.push(b'\n');
            let found = shape(&text);
            if matches!(found, Shape::Insert { .. }) {
                return Ok((text, found));
            }
        }
        let limit = self.query_bytes_max().max(text.len());
        let room = (limit - text.len()) as u64 + 1;
        (&mut self.body)
            .take(room)
            .read_to_end(&mut text)
            .map_err(|error| from_io(&error))?;
        let found = shape(&text);
        if text.len() > limit && !matches!(found, Shape::Insert { .. }) {
            let message = format!(
                "Syntax error: Max query size exceeded ({limit} bytes; setting max_query_size)"
            );
            return Err(Exception::new(62, &message, "SYNTAX_ERROR"));
        }
        Ok((text, found))
    }

    fn query_bytes_max(&self) -> usize {
        let setting = self
            .asked
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

fn prepare(connection: &mut Connection, asked: &Asked, tag: &str) -> Result<(), Exception> {
    let none = Default::default();
    if let Some(database) = asked.database.as_deref().filter(|name| !name.is_empty()) {
        connection.query(
            format!("USE {}", quoted_name(database)).as_bytes(),
            "",
            &none,
        )?;
    }
    connection.query(asked.set_statement(tag).as_bytes(), "", &none)?;
    Ok(())
}

/// A request's settings hold for that request only, also in a session. A setting that the session had SET itself goes
/// back to its default, not to that value. One that does not exist cannot be put back and was refused before.
fn undo_statement(asked: &Asked) -> String {
    let names = asked
        .settings
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| *name != "log_comment");
    let list: String = names.map(|name| format!(", {name} = DEFAULT")).collect();
    format!("SET log_comment = DEFAULT{list}")
}

/// Takes the query and parameters out of a form; nothing of the body is left.
fn read_form(asked: &mut Asked, body: &mut dyn Read, boundary: &str) -> Result<(), Exception> {
    let mut bytes = Vec::new();
    body.take(FORM_BYTES_MAX)
        .read_to_end(&mut bytes)
        .map_err(|error| from_io(&error))?;
    for (name, value) in fields(&bytes, boundary)? {
        match name.as_str() {
            "query" => asked.query.push_str(&value),
            _ => asked.other(&name, value)?,
        }
    }
    Ok(())
}
