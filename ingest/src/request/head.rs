//! Request heads: read once, and refused where hyper is more lenient than is safe.

use http::request::Parts;
use http::{HeaderValue, StatusCode, Version};
use ipnet::IpNet;
use millrace_parse::{ApiError, ErrorType};
use std::net::IpAddr;

/// Fields of a head that the handlers need; `V` is the text of a value. hyper's heads have it as
/// `&HeaderValue`, and heads that hyper has not seen as `&[u8]`: both are read by [`Self::add`].
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<V> {
    /// `Origin`, to be mirrored.
    pub origin: Option<V>,
    /// `Access-Control-Request-Headers`, to be mirrored.
    pub requested_headers: Option<V>,
    /// `Content-Encoding`.
    pub content_encoding: Option<V>,
    /// `Authorization`.
    pub authorization: Option<V>,
    /// `PostHog-Request-Timestamp`.
    pub request_timestamp: Option<V>,
    /// `PostHog-Sdk-Info`.
    pub sdk_info: Option<V>,
    /// True if the content type is a form's.
    pub form: bool,
    /// True if there is an `X-Forwarded-For`.
    forwarded: bool,
    /// Number of `Content-Encoding` headers.
    encodings: u32,
    hosts: u32,
    transfer_encodings: u32,
    chunked: bool,
    bytes: usize,
}

impl<V: Copy + AsRef<[u8]>> RequestHead<V> {
    /// Returns a head without fields, whose target has so many bytes.
    pub fn new(target_bytes: usize) -> Self {
        Self {
            origin: None,
            requested_headers: None,
            content_encoding: None,
            authorization: None,
            request_timestamp: None,
            sdk_info: None,
            form: false,
            forwarded: false,
            encodings: 0,
            hosts: 0,
            transfer_encodings: 0,
            chunked: false,
            bytes: target_bytes + 16,
        }
    }

    /// Reads the next field; `name` is in lower case.
    #[inline]
    pub fn add(&mut self, name: &str, value: V) {
        let text = value.as_ref();
        // Name, colon, space, value, line end.
        self.bytes += name.len() + text.len() + 4;
        match name {
            "host" => self.hosts += 1,
            "origin" => self.origin = Some(value),
            "content-type" => self.form = is_form(text),
            "content-encoding" => {
                self.content_encoding = Some(value);
                self.encodings += 1;
            }
            "transfer-encoding" => {
                self.transfer_encodings += 1;
                self.chunked = text.eq_ignore_ascii_case(b"chunked");
            }
            "x-forwarded-for" => self.forwarded = true,
            "authorization" => self.authorization = Some(value),
            "access-control-request-headers" => self.requested_headers = Some(value),
            "posthog-request-timestamp" => self.request_timestamp = Some(value),
            "posthog-sdk-info" => self.sdk_info = Some(value),
            _ => {}
        }
    }

    /// Refuses a head that hyper lets through and another server in front of us might read
    /// otherwise. `ambiguous` says that the raw head had both a length and a transfer encoding;
    /// hyper drops the length before we see it.
    pub fn check(
        &self,
        version: Version,
        ambiguous: bool,
        header_bytes_max: usize,
    ) -> Result<(), ApiError> {
        if self.bytes > header_bytes_max {
            return Err(ApiError::new(
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                ErrorType::InvalidRequest,
                "headers_too_large",
                "The request's head is too large. Send fewer or shorter headers, and events in the body.",
            ));
        }
        if ambiguous {
            return Err(malformed(
                "ambiguous_length",
                "The request has both Content-Length and Transfer-Encoding. Send one of them.",
            ));
        }
        let without_host = self.hosts == 0 && version >= Version::HTTP_11;
        if self.hosts > 1 || without_host {
            return Err(malformed(
                "invalid_host",
                "The request needs exactly one Host header.",
            ));
        }
        if self.transfer_encodings > 1 || (self.transfer_encodings == 1 && !self.chunked) {
            return Err(malformed(
                "invalid_transfer_encoding",
                "The only transfer encoding accepted is chunked. Name compression in Content-Encoding.",
            ));
        }
        Ok(())
    }

    /// Returns true if several encodings were applied one after the other.
    pub const fn stacked(&self) -> bool {
        self.encodings > 1
    }
}

impl<'a> RequestHead<&'a HeaderValue> {
    /// Reads all headers in one pass.
    pub fn read(parts: &'a Parts) -> Self {
        let target = parts.uri.path_and_query();
        let mut head = Self::new(target.map_or(1, |text| text.as_str().len()));
        for (name, value) in &parts.headers {
            head.add(name.as_str(), value);
        }
        head
    }

    /// Address that the request comes from: the peer, unless it is a proxy that we trust to say.
    ///
    /// Every proxy appends the address it saw, so the list is read from its end; the first address
    /// that is not one of our proxies is the last one that no client could have made up.
    pub fn client_ip(&self, parts: &Parts, peer: IpAddr, trusted: &[IpNet]) -> IpAddr {
        let peer = peer.to_canonical();
        let is_trusted = |ip: &IpAddr| trusted.iter().any(|net| net.contains(ip));
        if !self.forwarded || !is_trusted(&peer) {
            return peer;
        }
        let mut client = peer;
        let values = parts.headers.get_all("x-forwarded-for").iter().rev();
        for hop in values.flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')) {
            let Some(ip) = forwarded_ip(hop) else { break };
            client = ip;
            if !is_trusted(&ip) {
                break;
            }
        }
        client
    }
}

/// Address of one hop, as some proxies write it with a port.
fn forwarded_ip(hop: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(hop).ok()?.trim();
    let ip = text.parse::<IpAddr>().ok();
    let ip = ip.or_else(|| {
        text.parse::<std::net::SocketAddr>()
            .ok()
            .map(|addr| addr.ip())
    });
    ip.map(|ip| ip.to_canonical())
}

fn is_form(value: &[u8]) -> bool {
    let essence = value.split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default();
    essence
        .trim_ascii()
        .eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
}

fn malformed(code: &'static str, detail: &'static str) -> ApiError {
    ApiError::new(
        StatusCode::BAD_REQUEST,
        ErrorType::InvalidRequest,
        code,
        detail,
    )
}

/// Key after `Bearer` in `Authorization`.
pub fn bearer(authorization: Option<&HeaderValue>) -> Option<&str> {
    let (scheme, key) = authorization?.to_str().ok()?.trim().split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| key.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn parts(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/batch/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_client_is_named_by_trusted_proxies_only() {
        let trusted: Vec<IpNet> = vec!["10.0.0.0/8".parse().unwrap()];
        let table: [(&str, &[&str], &str); 8] = [
            ("203.0.113.9", &["198.51.100.1"], "203.0.113.9"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            (
                "10.0.0.1",
                &["1.1.1.1, 198.51.100.1, 10.0.0.2"],
                "198.51.100.1",
            ),
            (
                "10.0.0.1",
                &["1.1.1.1", "198.51.100.1:4711"],
                "198.51.100.1",
            ),
            ("10.0.0.1", &["2001:db8::1"], "2001:db8::1"),
            ("::ffff:10.0.0.1", &["[2001:db8::1]:80"], "2001:db8::1"),
            ("10.0.0.1", &["198.51.100.1, rubbish"], "10.0.0.1"),
        ];
        for (peer, values, client) in table {
            let headers: Vec<_> = values
                .iter()
                .map(|value| ("X-Forwarded-For", *value))
                .collect();
            let parts = parts(&headers);
            let found =
                RequestHead::read(&parts).client_ip(&parts, peer.parse().unwrap(), &trusted);
            assert_eq!(
                found,
                client.parse::<IpAddr>().unwrap(),
                "{peer} {values:?}"
            );
        }
    }

    #[test]
    fn a_form_is_known_by_its_type_whatever_follows() {
        let table = [
            ("application/x-www-form-urlencoded", true),
            ("Application/X-WWW-Form-Urlencoded; charset=UTF-8", true),
            ("application/json", false),
            ("text/plain;application/x-www-form-urlencoded", false),
        ];
        for (value, form) in table {
            assert_eq!(
                RequestHead::read(&parts(&[("Content-Type", value)])).form,
                form,
                "{value}"
            );
        }
    }

    #[test]
    fn a_bearer_key_is_found_in_any_case() {
        let table = [
            ("Bearer phc_x", Some("phc_x")),
            ("bearer   phc_x ", Some("phc_x")),
            ("Basic abc", None),
            ("phc_x", None),
        ];
        for (value, key) in table {
            let value = HeaderValue::from_static(value);
            assert_eq!(bearer(Some(&value)), key, "{value:?}");
        }
    }
}
