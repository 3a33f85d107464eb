//! Servers that files are stored on.

pub mod azurite;
pub mod gcs;
pub mod moto;
pub mod s3s;
mod shared;

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Time that a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Process of a server; killed when dropped.
struct ServerProcess(Child);

impl ServerProcess {
    /// Starts a server; returns it with the port that it prints behind this text, on either output.
    fn start(mut command: Command, before_port: &'static str) -> (Self, u16) {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let outputs: [Box<dyn Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        let (say, said) = sync_channel(2);
        for output in outputs {
            let say = say.clone();
            thread::spawn(move || find_port(output, before_port, &say));
        }
        drop(say);
        let server = Self(child);
        let port = said.recv_timeout(START_TIMEOUT);
        (server, port.expect("the server says where it is"))
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // The server may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Finds the port in a process's output. Reads on to its end, so that the server never blocks.
fn find_port(output: impl Read, before_port: &str, say: &SyncSender<u16>) {
    let lines = BufReader::new(output).split(b'\n').map_while(Result::ok);
    for line in lines {
        let line = String::from_utf8_lossy(&line);
        let Some((_, after)) = line.split_once(before_port) else {
            continue;
        };
        let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
        if let Ok(port) = digits.parse() {
            // The receiver needs the first one only.
            let _ = say.try_send(port);
        }
    }
}

/// Sends a plain request, which must succeed; returns the body of the answer.
async fn ask(request: reqwest::RequestBuilder) -> Vec<u8> {
    let answer = request.send().await.unwrap();
    let status = answer.status();
    let body = answer.bytes().await.unwrap().to_vec();
    assert!(
        status.is_success(),
        "{status} {}",
        String::from_utf8_lossy(&body)
    );
    body
}

/// Encodes a key for a URL.
fn encoded(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// Unescapes a text in XML.
fn unescaped(text: &str) -> String {
    let entities = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&amp;", "&"),
    ];
    entities
        .iter()
        .fold(text.to_owned(), |text, (entity, plain)| {
            text.replace(entity, plain)
        })
}
