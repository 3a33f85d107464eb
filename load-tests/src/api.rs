//! Form of the requests that a capture API takes: path, body and further headers.

use anyhow::{Result, ensure};
use http::header::{HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Uri};
use serde::{Deserialize, Serialize};

/// Headers that follow from the request itself.
const OWN_HEADERS: [&str; 5] = [
    "connection",
    "content-encoding",
    "content-length",
    "host",
    "transfer-encoding",
];

/// Form of a request's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// An object with the key and the list of events, to /batch/, as server-side SDKs send it.
    #[default]
    Batch,
    /// A list of events, each with the key, to /i/v0/e/.
    List,
    /// A single event with the key, to /i/v0/e/.
    Event,
}

/// Header of all requests, beside those that follow from the request itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    name: HeaderName,
    /// Marked as sensitive, so that no debug output shows it.
    value: HeaderValue,
}

impl Api {
    /// Path of the form by default.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Batch => "/batch/",
            Self::List | Self::Event => "/i/v0/e/",
        }
    }

    /// URL to send to: that of the server with `path`, or with the path of the form.
    ///
    /// # Errors
    /// The URL has a path already and another is given, or `path` does not begin with a slash.
    pub fn url(self, url: &str, path: Option<&str>) -> Result<String> {
        if has_path(url) {
            ensure!(
                path.is_none(),
                "{url:?} has a path; --path would replace it"
            );
            return Ok(url.to_owned());
        }
        let path = path.unwrap_or_else(|| self.path());
        ensure!(
            path.starts_with('/'),
            "--path {path:?} does not begin with /"
        );
        Ok(format!("{}{path}", url.trim_end_matches('/')))
    }
}

/// Returns true if a URL names more than a server.
fn has_path(url: &str) -> bool {
    let uri: Option<Uri> = url.parse().ok();
    let path = uri.as_ref().and_then(Uri::path_and_query);
    path.is_some_and(|path| !["", "/"].contains(&PathAndQuery::as_str(path)))
}

impl Header {
    /// Parses `NAME: VALUE`.
    ///
    /// # Errors
    /// It is not a header, or one that follows from the request itself, in a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, value) = text
            .split_once(':')
            .ok_or("there is no colon behind a name")?;
        let name: HeaderName = name
            .trim()
            .parse()
            .map_err(|_| format!("{name:?} is not a header's name"))?;
        if OWN_HEADERS.contains(&name.as_str()) {
            return Err(format!("{name} follows from the request"));
        }
        let value = HeaderValue::from_str(value.trim()).ok();
        let mut value = value
            .filter(|value| value.to_str().is_ok())
            .ok_or_else(|| format!("the value of {name} has characters that are not ASCII's"))?;
        value.set_sensitive(true);
        Ok(Self { name, value })
    }

    /// Name of the header.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Value of the header.
    #[must_use]
    pub fn value(&self) -> &str {
        // It was parsed from a text of visible characters.
        self.value.to_str().unwrap_or_default()
    }

    /// Returns true for a header that says of which type the body is.
    #[must_use]
    pub fn is_content_type(&self) -> bool {
        self.name.as_str() == "content-type"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_that_of_the_form() {
        for (api, url, path, expected) in [
            (Api::Batch, "http://h", None, Some("http://h/batch/")),
            (Api::List, "http://h:1/", None, Some("http://h:1/i/v0/e/")),
            (
                Api::Event,
                "http://h",
                Some("/capture/"),
                Some("http://h/capture/"),
            ),
            (Api::Event, "http://h/e/?a=b", None, Some("http://h/e/?a=b")),
            (Api::Event, "http://h/?a=b", None, Some("http://h/?a=b")),
            (Api::Batch, "http://h/e/", Some("/capture/"), None),
            (Api::Batch, "http://h", Some("capture/"), None),
        ] {
            let made = api.url(url, path).ok();
            assert_eq!(made.as_deref(), expected, "{api:?} {url} {path:?}");
        }
    }

    #[test]
    fn a_header_is_a_name_and_a_value() {
        for (text, name, value) in [
            ("X-Key: a b", "x-key", "a b"),
            ("authorization:Bearer x:y", "authorization", "Bearer x:y"),
            ("Content-Type: text/csv", "content-type", "text/csv"),
        ] {
            let header = Header::parse(text).unwrap();
            assert_eq!((header.name(), header.value()), (name, value));
            assert!(!format!("{header:?}").contains(value), "{header:?}");
            assert_eq!(header.is_content_type(), name == "content-type");
        }
        for (text, says) in [
            ("X-Key", "no colon"),
            ("a b: c", "\"a b\" is not a header's name"),
            (": c", "\"\" is not a header's name"),
            ("Host: h", "host follows from the request"),
            ("content-length: 1", "content-length follows"),
            ("X-Key: a\r\nb: c", "the value of x-key has characters"),
        ] {
            let error = Header::parse(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
