//! Log lines to standard error or to a file, for people or as JSON. Each log event is one line,
//! whatever its texts hold: control characters are escaped.

use crate::colors;
use crate::config::{LogFormat, LogSettings};
use crate::log_file::LogFile;
use millrace_rows::{shown, shown_json};
use std::fmt::{self, Debug};
use std::io::{self, IsTerminal, Write};
use tracing::field::{Field, Visit};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::writer::BoxMakeWriter;

/// Kind of the process that logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogSource {
    /// Server, which runs until it is stopped.
    Server,
    /// Embedded engine, whose log its parent reads.
    SupervisedEngine,
    /// Command at a terminal. It never writes to the log file, which a server may have open.
    Command,
}

/// Starts logging; the filter was checked with the settings.
///
/// # Errors
/// When the filter cannot be read, or the log file not be written to.
pub fn start(settings: &LogSettings, source: LogSource) -> anyhow::Result<()> {
    let filter = &settings.log_level;
    let filter = EnvFilter::try_new(filter)
        .map_err(|error| anyhow::anyhow!("log_level is {filter:?}: {error}; try `info`"))?;
    let file = log_file(settings, source)?;
    // The parent decides about the colors of its own lines.
    let is_supervised = source == LogSource::SupervisedEngine;
    let has_colors =
        file.is_none() && !is_supervised && colors::are_wanted(io::stderr().is_terminal());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(has_colors);
    match settings.log_format {
        // The parent writes each line again, with a time and a level of its own.
        _ if source == LogSource::SupervisedEngine => builder
            .fmt_fields(ShownFields)
            .with_writer(io::stderr)
            .with_target(false)
            .without_time()
            .with_level(false)
            .init(),
        LogFormat::Human => builder
            .fmt_fields(ShownFields)
            .with_writer(writer(file))
            .with_target(false)
            .init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_writer(json_writer(file))
            .init(),
    }
    Ok(())
}

/// Log file of a server, if one is set.
fn log_file(settings: &LogSettings, source: LogSource) -> anyhow::Result<Option<LogFile>> {
    let path = settings.log_file.as_deref();
    let path = path.filter(|_| source == LogSource::Server);
    let bytes_max = settings.log_file_bytes_max.as_u64();
    path.map(|path| LogFile::open(path, bytes_max, settings.log_files_kept))
        .transpose()
}

fn writer(file: Option<LogFile>) -> BoxMakeWriter {
    match file {
        Some(file) => BoxMakeWriter::new(move || file.clone()),
        None => BoxMakeWriter::new(io::stderr),
    }
}

fn json_writer(file: Option<LogFile>) -> BoxMakeWriter {
    match file {
        Some(file) => BoxMakeWriter::new(move || ShownJson(file.clone())),
        None => BoxMakeWriter::new(|| ShownJson(io::stderr())),
    }
}

/// Formats fields for people, each text in one line.
struct ShownFields;

impl<'writer> FormatFields<'writer> for ShownFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut fields_of = Fields {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut fields_of);
        fields_of.result
    }
}

struct Fields<'writer> {
    writer: Writer<'writer>,
    is_first: bool,
    result: fmt::Result,
}

impl Fields<'_> {
    fn write(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        let space = if self.is_first { "" } else { " " };
        self.is_first = false;
        let value = format!("{value:?}");
        let value = shown(&value);
        match name {
            "message" => write!(self.writer, "{space}{value}"),
            _ => write!(
                self.writer,
                "{space}{}={value}",
                name.trim_start_matches("r#")
            ),
        }
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.record_debug(field, &format_args!("{value}")),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Fields `log.*` are metadata of events of the crate `log`, which the default formatter
        // skips, too.
        if self.result.is_ok() && !field.name().starts_with("log.") {
            self.result = self.write(field.name(), value);
        }
    }
}

/// Writer that escapes control characters in lines of JSON; each write is one whole line.
struct ShownJson<W>(W);

impl<W: Write> Write for ShownJson<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.0.write_all(shown_json(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    const HOSTILE: &str = "a\n9999 ERROR forged\r\u{1b}[2J\u{7f}\u{9b}1m\u{202e}\u{2028}";
    const ESCAPED: &str = r"a\u{a}9999 ERROR forged\u{d}\u{1b}[2J\u{7f}\u{9b}1m\u{202e}\u{2028}";

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Lines {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn log() {
        let name = HOSTILE;
        tracing::error_span!("request", id = %name).in_scope(|| {
            tracing::info!(shown = %name, quoted = name, debug = ?name, "message with {name}");
        });
    }

    #[test]
    fn hostile_texts_stay_in_one_line_for_people() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(ShownFields)
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = lines.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        for field in ["request{id=", "message with ", " shown="] {
            assert!(text.contains(&format!("{field}{ESCAPED}")), "{text}");
        }
        let is_control = |c| c != '\n' && millrace_rows::is_control(c);
        assert!(!text.contains(is_control), "{text:?}");
    }

    #[test]
    fn json_lines_have_no_control_characters_and_keep_their_meaning() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_writer(move || ShownJson(writer.clone()))
            .finish();
        tracing::subscriber::with_default(subscriber, log);
        let text = lines.text();
        assert_eq!(text.lines().count(), 1, "{text}");
        let is_control = |c| c != '\n' && millrace_rows::is_control(c);
        assert!(!text.contains(is_control), "{text:?}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(line["shown"], HOSTILE);
        assert_eq!(line["span"]["id"], HOSTILE);
    }
}
