//! Parses the URL and headers of a request. Every URL parameter that is not one of the interface's
//! own is an engine setting.

use std::time::Duration;

use http::{HeaderMap, Method};

use crate::exception::Exception;
use crate::ffi::Parameters;

const SESSION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// ClickHouse's own default of `http_send_timeout`.
pub(crate) const SEND_MAX_DEFAULT: Duration = Duration::from_secs(30);
/// Longest `http_send_timeout` in seconds, which Millrace gives its own reads.
const SEND_SECONDS_MAX: u64 = 600;
const SESSION_TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// A request without its body.
#[derive(Debug, Default)]
pub(crate) struct QueryRequest {
    /// The `query` parameter; the body is appended to it.
    pub(crate) query: String,
    pub(crate) query_id: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) database: Option<String>,
    /// Output format of a query that names none.
    pub(crate) default_format: Option<String>,
    /// Compress the response into ClickHouse blocks.
    pub(crate) compress: bool,
    /// The body is in ClickHouse blocks.
    pub(crate) decompress: bool,
    /// Hold the response back until the query has ended.
    pub(crate) wait_end_of_query: bool,
    pub(crate) session: Option<SessionRequest>,
    pub(crate) parameters: Parameters,
    /// Engine settings, in the order given.
    pub(crate) settings: Vec<(String, String)>,
    /// True for any method but POST, and for pages of other sites: the request may change nothing,
    /// as links, images and forms of any page cause requests too.
    is_read: bool,
}

/// Session that a request names.
#[derive(Debug)]
pub(crate) struct SessionRequest {
    pub(crate) id: String,
    /// Time that the session is kept after its last request.
    pub(crate) timeout: Duration,
    /// Refuse the request unless the session exists.
    pub(crate) must_exist: bool,
}

// === impl QueryRequest ===

impl QueryRequest {
    pub(crate) fn read(
        method: &Method,
        url_query: &str,
        headers: &HeaderMap,
    ) -> Result<Self, Exception> {
        let mut request = Self {
            is_read: method != Method::POST || is_of_another_site(headers),
            ..Self::default()
        };
        let (mut session_id, mut timeout, mut must_exist) = (None, None, false);
        for (name, value) in form_urlencoded::parse(url_query.as_bytes()) {
            let (name, value) = (name.as_ref(), value.into_owned());
            match name {
                "query" => request.query.push_str(&value),
                "query_id" => request.query_id = Some(value),
                "user" => request.user = Some(value),
                "password" => request.password = Some(value),
                "database" => request.database = Some(value),
                "default_format" => request.default_format = Some(value),
                "compress" => request.compress = is_true(&value),
                "decompress" => request.decompress = is_true(&value),
                "wait_end_of_query" => request.wait_end_of_query = is_true(&value),
                "session_id" => session_id = Some(value),
                "session_timeout" => timeout = Some(value),
                "session_check" => must_exist = is_true(&value),
                // Meaningful to a server only: quotas, roles, buffers, protocol.
                "quota_key"
                | "role"
                | "buffer_size"
                | "stacktrace"
                | "close_session"
                | "client_protocol_version" => {}
                _ => request.add_parameter(name, value)?,
            }
        }
        request.take_headers(headers)?;
        request.session = session_id
            .filter(|id| !id.is_empty())
            .map(|id| {
                session_timeout(timeout.as_deref()).map(|timeout| SessionRequest {
                    id,
                    timeout,
                    must_exist,
                })
            })
            .transpose()?;
        if request.is_read && !request.settings.iter().any(|(name, _)| name == "readonly") {
            // As on a server: GET changes nothing, but may carry settings.
            request
                .settings
                .push(("readonly".to_owned(), "2".to_owned()));
        }
        Ok(request)
    }

    /// Takes values from headers where there is no parameter.
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
            // The name is written into the query's text.
            Some(format) if !is_plain_name(format) => Err(Exception::new(
                73,
                &format!("Unknown format {format}"),
                "UNKNOWN_FORMAT",
            )),
            _ => Ok(()),
        }
    }

    /// Longest time that the client may accept nothing of its response (`http_send_timeout`), at
    /// most 10 minutes.
    pub(crate) fn send_max(&self) -> Duration {
        let mut settings = self.settings.iter().rev();
        let setting = settings.find(|(name, _)| name == "http_send_timeout");
        let seconds = setting.and_then(|(_, value)| value.parse().ok());
        seconds.map_or(SEND_MAX_DEFAULT, |seconds: u64| {
            Duration::from_secs(seconds.clamp(1, SEND_SECONDS_MAX))
        })
    }

    /// Adds a parameter of the statement or a setting.
    pub(crate) fn add_parameter(&mut self, name: &str, value: String) -> Result<(), Exception> {
        if let Some(parameter) = name.strip_prefix("param_") {
            // The value is escaped as in TabSeparated; the engine unescapes it when it binds it.
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
        // A read may be restricted further, never less.
        if !(self.is_read && name == "readonly" && value != "1") {
            self.settings.push((name.to_owned(), value));
        }
        Ok(())
    }

    /// SET statement that applies the settings. `readonly` comes last, as it forbids changing
    /// others.
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

/// Returns true if a browser sends the request for a page of another origin, with a login that it
/// has saved.
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

/// Quotes a text as a ClickHouse string literal.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Quotes a ClickHouse name.
pub(crate) fn quoted_name(text: &str) -> String {
    format!("`{}`", text.replace('\\', "\\\\").replace('`', "\\`"))
}
