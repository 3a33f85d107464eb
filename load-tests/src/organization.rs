//! Client of the organization API: JSON in both directions, one connection per request.

use crate::target::Target;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for a response, which is at most a page of a catalog.
const TIMEOUT: Duration = Duration::from_secs(30);

/// API of the organization to which a personal key belongs.
#[derive(Clone)]
pub struct Organization {
    /// `http://host:port`.
    pub url: String,
    /// Personal API key.
    pub key: String,
}

impl fmt::Debug for Organization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Organization")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl Organization {
    /// Posts a body to a path below the organization's; a null body sends a GET.
    ///
    /// # Errors
    /// No response in time, or a status other than success; the error quotes the response.
    pub fn ask(&self, path: &str, body: &Value) -> Result<Value> {
        let authority = Target::parse(&self.url)?.authority;
        let method = if body.is_null() { "GET" } else { "POST" };
        let body = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let mut stream = TcpStream::connect(&authority).context("the organization API")?;
        stream.set_read_timeout(Some(TIMEOUT)).context("timeout")?;
        write!(
            stream,
            "{method} /api/organizations/@current/{path} HTTP/1.1\r\nHost: {authority}\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.key,
            body.len()
        )
        .context("request")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("answer")?;
        json(&answer).with_context(|| format!("{method} {path}"))
    }
}

fn json(answer: &str) -> Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").context("no whole answer")?;
    let status = head.split(' ').nth(1).unwrap_or_default();
    ensure!(status.starts_with('2'), "{status}: {body}");
    serde_json::from_str(body).context("the answer is not JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_json_or_an_error_with_its_reason() {
        let answered = json("HTTP/1.1 201 Created\r\nA: b\r\n\r\n{\"id\":1}").unwrap();
        assert_eq!(answered["id"], 1);
        for (answer, said) in [
            ("HTTP/1.1 404 Not Found\r\n\r\nnobody", "404: nobody"),
            ("HTTP/1.1 200 OK\r\n\r\n", "not JSON"),
            ("", "no whole answer"),
        ] {
            let error = format!("{:#}", json(answer).unwrap_err());
            assert!(error.contains(said), "{error}");
        }
    }
}
