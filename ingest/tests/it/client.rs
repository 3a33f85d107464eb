//! HTTP/1.1 client by hand: a test sees exactly what was sent.

use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Time that a test waits before it fails; long, because machines that run tests are busy.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Connection of a client, with TLS or without.
pub struct Client<S = TcpStream> {
    reader: BufReader<S>,
}

/// Response of the server.
#[derive(Debug)]
pub struct TestResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub fn connect(addr: SocketAddr) -> Self {
        Self::of(socket(addr))
    }

    /// Gives the kernel a small buffer for what is not read.
    pub fn shrink_receive_buffer(&self) {
        let stream = self.reader.get_ref();
        rustix::net::sockopt::set_socket_recv_buffer_size(stream, 4 << 10).unwrap();
    }

    /// Closes one direction or both.
    pub fn shut(&mut self, how: std::net::Shutdown) {
        self.reader.get_mut().shutdown(how).unwrap();
    }

    /// Shuts down the writing side: nothing more will be sent.
    pub fn finish(&mut self) {
        self.reader
            .get_mut()
            .shutdown(std::net::Shutdown::Write)
            .unwrap();
    }

    /// Clones the connection, for a thread that only writes.
    pub fn try_clone(&self) -> Self {
        Self {
            reader: BufReader::new(self.reader.get_ref().try_clone().unwrap()),
        }
    }
}

impl<S: Read + Write> Client<S> {
    pub fn of(stream: S) -> Self {
        Self {
            reader: BufReader::new(stream),
        }
    }

    /// Sends a POST and reads the response.
    pub fn post(&mut self, target: &str, headers: &[(&str, &str)], body: &[u8]) -> TestResponse {
        self.request("POST", target, headers, body)
    }

    /// Sends a request and reads the response.
    pub fn request(
        &mut self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> TestResponse {
        self.send(&request(method, target, headers, body));
        if method == "HEAD" {
            self.read_head_only()
        } else {
            self.read()
        }
    }

    /// Sends raw bytes. A peer that no longer reads is not an error here.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.reader.get_mut().write_all(bytes);
    }

    /// Sends raw bytes; `false` when the peer is gone.
    pub fn sends(&mut self, bytes: &[u8]) -> bool {
        self.reader.get_mut().write_all(bytes).is_ok()
    }

    /// Reads a response.
    pub fn read(&mut self) -> TestResponse {
        let mut answer = self.read_head_only();
        let length = answer
            .header("content-length")
            .map_or(0, |text| text.parse().unwrap());
        answer.body = vec![0; length];
        self.reader.read_exact(&mut answer.body).unwrap();
        answer
    }

    /// Waits for the beginning of a response.
    pub fn wait(&mut self) {
        self.reader.fill_buf().unwrap();
    }

    fn read_head_only(&mut self) -> TestResponse {
        let status_line = self.line();
        let status = status_line
            .split(' ')
            .nth(1)
            .unwrap_or_else(|| panic!("{status_line:?}"));
        let status = status.parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        TestResponse {
            status,
            headers,
            body: Vec::new(),
        }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Sends a byte; `false` when the peer is gone.
    pub fn send_one(&mut self, byte: u8) -> bool {
        self.reader.get_mut().write_all(&[byte]).is_ok()
    }

    /// Returns the bytes of one read.
    pub fn read_once(&mut self) -> Vec<u8> {
        let bytes = self.reader.fill_buf().unwrap().to_vec();
        self.reader.consume(bytes.len());
        bytes
    }

    /// Returns true if the server responds 200 before it closes the connection.
    pub fn reads_success(&mut self) -> bool {
        let mut rest = Vec::new();
        // A reset is as good as a close.
        let _ = self.reader.read_to_end(&mut rest);
        rest.starts_with(b"HTTP/1.1 200")
    }

    /// Status of the next response; `None` if the connection is closed before.
    pub fn reads_status(&mut self) -> Option<u16> {
        let mut line = String::new();
        // A reset is as good as a close.
        let _ = self.reader.read_line(&mut line);
        line.split(' ').nth(1)?.parse().ok()
    }

    /// Returns true if the server closes the connection; waits for it.
    pub fn is_closed(&mut self) -> bool {
        let mut rest = Vec::new();
        match self.reader.read_to_end(&mut rest) {
            Ok(0) => true,
            Ok(_) => panic!("unexpected: {:?}", String::from_utf8_lossy(&rest)),
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

/// Opens a socket that waits for a busy machine, and not for ever.
pub fn socket(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_write_timeout(Some(TEST_TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// Builds a request as bytes, with `Host`, and `Content-Length` where there is a body.
pub fn request(method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!("{method} {target} HTTP/1.1\r\nHost: test\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !body.is_empty() || method == "POST" {
        head.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

impl TestResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    /// Code of the error, after a check of the four keys that every error has.
    pub fn code(&self) -> String {
        let json = self.json();
        let keys = ["type", "code", "detail", "attr"];
        assert!(keys.iter().all(|key| json.get(key).is_some()), "{json}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        json["code"].as_str().unwrap().to_owned()
    }
}
