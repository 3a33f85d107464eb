//! What the URL and headers of a request ask for. Every URL parameter that is not one of ours is an engine setting.

use std::time::Duration;

use http::{HeaderMap, Method};

use crate::exception::Exception;
use crate::ffi::Parameters;

const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// As a server has it.
const SEND_MAX_DEFAULT: Duration = Duration::from_secs(30);
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// A request without its body.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// The `query` parameter; the body follows it.
    pub(crate) query: String,
    pub(crate) query_id: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    /// Output format of a query that names none.
    pub(crate) default_format: Option<String>,
    /// Answer in ClickHouse blocks.
    pub(crate) compress: bool,
    /// The body is in ClickHouse blocks.
    pub(crate) decompress: bool,
    /// Hold the answer back until the end is known.
    pub(crate) wait_end_of_query: bool,
    pub(crate) session: Option<SessionAsked>,
    pub(crate) parameters: Parameters,
    /// In the order given.
    pub(crate) settings: Vec<(String, String)>,
    /// It changes nothing, whatever it asks for: links, pictures and forms of any page are requests as well.
    is_read: bool,
}

/// Which session a request belongs to.
#[derive(Debug)]
pub(crate) struct SessionAsked {
    pub(crate) id: String,
    /// How long it stays after its last request.
    pub(crate) timeout: Duration,
    /// It must exist already.
    pub(crate) must_exist: bool,
}

// === impl Asked ===

impl Asked {
    pub(crate) fn read(
        method: &Method,
        url_query: &str,
        headers: &HeaderMap,
    ) -> Result<Self, Exception> {
        let mut asked = Self {
            is_read: method != Method::POST || is_of_another_site(headers),
            ..Self::default()
        };
        let (mut session_id, mut timeout, mut must_exist) = (None, None, false);
        for (name, value) in form_urlencoded::parse(url_query.as_bytes()) {
            let (name, value) = (name.as_ref(), value.into_owned());
            match name {
                "query" => asked.query.push_str(&value),
                "query_id" => asked.query_id = Some(value),
                "user" => asked.user = Some(value),
                "password" => asked.password = Some(value),
                "database" => asked.database = Some(value),
                "default_format" => asked.default_format = Some(value),
                "compress" => asked.compress = is_true(&value),
                "decompress" => asked.decompress = is_true(&value),
                "wait_end_of_query" => asked.wait_end_of_query = is_true(&value),
                "session_id" => session_id = Some(value),
                "session_timeout" => timeout = Some(value),
                "session_check" => must_exist = is_true(&value),
                // They mean something to a server only: quotas, roles, buffers, protocol.
                "quota_key"
                | "role"
                | "buffer_size"
                | "stacktrace"
                | "close_session"
                | "client_protocol_version" => {}
                _ => asked.other(name, value)?,
            }
        }
        asked.take_headers(headers)?;
        asked.session = session_id
            .filter(|id| !id.is_empty())
            .map(|id| {
                session_timeout(timeout.as_deref()).map(|timeout| SessionAsked {
                    id,
                    timeout,
                    must_exist,
                })
            })
            .transpose()?;
        if asked.is_read && !asked.settings.iter().any(|(name, _)| name == "readonly") {
            // As a server has it: GET changes nothing, but may carry settings.
            asked.settings.push(("readonly".to_owned(), "2".to_owned()));
        }
        Ok(asked)
    }

    /// Takes what a header says where no parameter does.
    fn take_headers(&mut self, headers: &HeaderMap) -> Result<(), Exception> {
        let header = |name: &str| {
            headers
                .get(name)
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        if self.database.is_none() {
            self.database = header("x-clickhouse-database");
        }
        if self.default_format.is_none() {
            self.default_format = header("x-clickhouse-format");
        }
        match self.default_format.as_deref() {
            // It is written into the query's text.
            Some(format) if !is_plain_name(format) => Err(Exception::new(
                73,
                &format!("Unknown format {format}"),
                "UNKNOWN_FORMAT",
            )),
            _ => Ok(()),
        }
    }

    /// How long the client may take nothing of its answer (`http_send_timeout`).
    pub(crate) fn send_max(&self) -> Duration {
        let mut settings = self.settings.iter().rev();
        let setting = settings.find(|(name, _)| name == "http_send_timeout");
        let seconds = setting.and_then(|(_, value)| value.parse().ok());
        seconds.map_or(SEND_MAX_DEFAULT, Duration::from_secs)
    }

    /// Takes a parameter of the statement or a setting.
    pub(crate) fn other(&mut self, name: &str, value: String) -> Result<(), Exception> {
        if let Some(parameter) = name.strip_prefix("param_") {
            // Escaped as in TabSeparated; the engine unescapes when it binds.
            self.parameters.0.push((parameter.to_owned(), value));
            return Ok(());
        }
        if !is_plain_name(name) {
            return Err(Exception::new(
                115,
                &format!("Unknown setting '{name}'"),
                "UNKNOWN_SETTING",
            ));
        }
        // A read may be held to less than it is, not to more.
        if !(self.is_read && name == "readonly" && value != "1") {
            self.settings.push((name.to_owned(), value));
        }
        Ok(())
    }

    /// The SET statement that puts the settings in force. `readonly` comes last, as it forbids changing others.
    pub(crate) fn set_statement(&self, tag: &str) -> String {
        let comment = self
            .settings
            .iter()
            .rev()
            .find(|(name, _)| name == "log_comment")
            .map_or("", |(_, value)| value);
        let mut sql = format!("SET log_comment = {}", quoted(&format!("{tag} {comment}")));
        let (last, first): (Vec<_>, Vec<_>) = self
            .settings
            .iter()
            .partition(|(name, _)| name == "readonly");
        for (name, value) in first
            .into_iter()
            .chain(last)
            .filter(|(name, _)| name != "log_comment")
        {
            sql.push_str(&format!(", {name} = {}", quoted(value)));
        }
        sql
    }
}

/// Whether a browser sends it for a page that did not come from here, with a login that it has saved.
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let header = |name: &str| headers.get(name).map(|value| value.as_bytes());
    let from_elsewhere =
        header("sec-fetch-site").is_some_and(|site| !matches!(site, b"same-origin" | b"none"));
    let host = header("host").unwrap_or_default();
    let is_ours = |origin: &[u8]| {
        [&b"http://"[..], b"https://"]
            .iter()
            .any(|scheme| origin.strip_prefix(*scheme) == Some(host))
    };
    from_elsewhere || header("origin").is_some_and(|origin| !is_ours(origin))
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "True")
}

fn session_timeout(text: Option<&str>) -> Result<Duration, Exception> {
    let Some(text) = text else {
        return Ok(SESSION_TIMEOUT_DEFAULT);
    };
    text.parse()
        .ok()
        .map(Duration::from_secs)
        .filter(|timeout| *timeout <= SESSION_TIMEOUT_MAX)
        .ok_or_else(|| {
            Exception::new(
                374,
                &format!("Invalid session timeout: '{text}'"),
                "INVALID_SESSION_TIMEOUT",
            )
        })
}

/// A ClickHouse string literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A ClickHouse quoted name.
pub(crate) fn quoted_name(text: &str) -> String {
    format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"))
}
