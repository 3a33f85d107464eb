//! Servers that files are stored on.

pub mod azurite;
pub mod gcs;
pub mod moto;
pub mod s3s;
mod shared;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// Time that a server may take to start on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// Folder of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Starts a process that ends with the test; returns it with the port that it prints behind this
/// text.
async fn started(mut command: Command, before_port: &str) -> (Child, u16) {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let said = tokio::select! {
        port = port(child.stdout.take().unwrap(), before_port) => port,
        port = port(child.stderr.take().unwrap(), before_port) => port,
        () = tokio::time::sleep(START_TIMEOUT) => panic!("the server does not say where it is"),
    };
    (child, said)
}

/// Finds the port in a process's output. Continues to read it, so that the server never blocks.
async fn port(output: impl AsyncRead + Unpin + Send + 'static, before: &str) -> u16 {
    let mut lines = BufReader::new(output).lines();
    let mut heard = String::new();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, after)) = line.split_once(before) {
            let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return digits.parse().unwrap();
        }
        heard.push_str(&line);
    }
    // The other output may still have it.
    eprintln!("{heard}");
    std::future::pending().await
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
