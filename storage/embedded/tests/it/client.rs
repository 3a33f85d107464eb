//! Small HTTP client that runs `curl`, so the requests are those that users send.

use std::io::Write as _;
use std::net::{IpAddr, UdpSocket};
use std::process::{Command, Stdio};

use millrace_embedded::testing::TestEngine;

/// Response with its headers.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    /// Headers as received, names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    pub fn header(&self, name: &str) -> &str {
        self.headers
            .iter()
            .find(|(key, _)| key == name)
            .map_or("", |(_, value)| value)
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Address of this machine other than loopback, if it has one; nothing is sent.
pub fn machine_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let ip = socket.local_addr().ok()?.ip();
    (!ip.is_loopback() && !ip.is_unspecified()).then_some(ip)
}

/// Posts `body` with these URL parameters.
pub fn post(engine: &TestEngine, parameters: &[(&str, &str)], body: &[u8]) -> Response {
    let key = format!("X-ClickHouse-Key: {}", engine.password);
    let user = format!("X-ClickHouse-User: {}", engine.user);
    curl(
        engine,
        parameters,
        &[
            "-H",
            &user,
            "-H",
            &key,
            "-H",
            "Expect:",
            "--data-binary",
            "@-",
        ],
        body,
    )
}

/// Posts a query, which must succeed, and returns the body.
pub fn query(engine: &TestEngine, sql: &str) -> String {
    let response = post(engine, &[], sql.as_bytes());
    assert_eq!(response.status, 200, "{sql}: {}", response.text());
    response.text()
}

/// Runs the real curl.
pub fn curl(
    engine: &TestEngine,
    parameters: &[(&str, &str)],
    arguments: &[&str],
    input: &[u8],
) -> Response {
    let encoded: Vec<String> = parameters
        .iter()
        .map(|(name, value)| format!("{name}={}", percent(value)))
        .collect();
    let url = format!("{}/?{}", engine.url, encoded.join("&"));
    let mut child = Command::new("curl")
        .args(["-sS", "-i", "--max-time", "120"])
        .args(arguments)
        .arg(url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("curl is installed");
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || {
            let _ = stdin.write_all(input);
        });
        child.wait_with_output().unwrap()
    });
    parse(&output.stdout)
}

/// Parses a response, behind interim ones.
fn parse(mut bytes: &[u8]) -> Response {
    let end_of = |bytes: &[u8]| {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        end.expect("a head")
    };
    while bytes.starts_with(b"HTTP/1.1 1") {
        bytes = &bytes[end_of(bytes) + 4..];
    }
    let end = end_of(bytes);
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Response {
        status,
        headers,
        body: bytes[end + 4..].to_vec(),
    }
}

fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| {
            if byte.is_ascii_alphanumeric() {
                char::from(byte).to_string()
            } else {
                format!("%{byte:02X}")
            }
        })
        .collect()
}
