//! A server whose responses a test scripts.

use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A scripted response: status, `Retry-After` and body.
pub type CannedResponse = (u16, Option<u32>, Value);

/// A request that the server received.
pub struct ReceivedRequest {
    pub path: String,
    pub body: Vec<u8>,
}

impl ReceivedRequest {
    pub fn events(&self) -> Vec<Value> {
        let body: Value = serde_json::from_slice(&self.body).unwrap();
        body["batch"].as_array().unwrap().clone()
    }
}

type Script = Box<dyn FnMut(&ReceivedRequest) -> CannedResponse + Send>;

/// Starts a server and returns its URL. The server ends with the test's process.
pub fn serve(script: impl FnMut(&ReceivedRequest) -> CannedResponse + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let script: Arc<Mutex<Script>> = Arc::new(Mutex::new(Box::new(script)));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let script = Arc::clone(&script);
            std::thread::spawn(move || while exchange(&stream, &script).is_some() {});
        }
    });
    url
}

fn exchange(mut stream: &TcpStream, script: &Mutex<Script>) -> Option<()> {
    let request = read(stream)?;
    let (status, retry_after, body) = (script.lock().unwrap())(&request);
    let retry_after = retry_after.map_or(String::new(), |it| format!("retry-after: {it}\r\n"));
    let body = body.to_string();
    let length = body.len();
    let response =
        format!("HTTP/1.1 {status} X\r\n{retry_after}content-length: {length}\r\n\r\n{body}");
    stream.write_all(response.as_bytes()).ok()
}

fn read(stream: &TcpStream) -> Option<ReceivedRequest> {
    let mut reader = BufReader::new(stream);
    let (mut path, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if path.is_empty() {
            path = line.split(' ').nth(1)?.to_owned();
        }
        if let Some(text) = line.strip_prefix("content-length:") {
            length = text.trim().parse().ok()?;
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ReceivedRequest { path, body })
}
