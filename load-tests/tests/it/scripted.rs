//! A server with scripted responses.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

/// Response that acknowledges a batch and closes the connection.
pub const OK: &str =
    "HTTP/1.1 200 OK\r\nContent-Length: 15\r\nConnection: close\r\n\r\n{\"status\":\"Ok\"}";

/// Starts a server that accepts `answers.len()` connections in turn. It reads one request on each,
/// sends the response as it stands and closes. Then it stops listening and returns the requests.
pub fn scripted(answers: Vec<&'static str>) -> (String, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        let answer = |answer: &str| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            while !is_whole(&request) {
                match stream.read(&mut piece).unwrap() {
                    0 => break,
                    read => request.extend_from_slice(&piece[..read]),
                }
            }
            stream.write_all(answer.as_bytes()).unwrap();
            request
        };
        answers.into_iter().map(answer).collect()
    });
    (url, thread)
}

/// Returns true once a request has as many bytes as its head announces.
fn is_whole(request: &[u8]) -> bool {
    let Some(end) = request.windows(4).position(|bytes| bytes == b"\r\n\r\n") else {
        return false;
    };
    let head = std::str::from_utf8(&request[..end]).unwrap();
    let length = head.split("Content-Length: ").nth(1).unwrap();
    request.len() >= end + 4 + length.parse::<usize>().unwrap()
}
