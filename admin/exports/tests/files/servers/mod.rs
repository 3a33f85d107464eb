//! Servers that files are put on.

pub mod azurite;
pub mod gcs;
pub mod moto;
pub mod s3s;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};

/// What a server may take to start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The workspace's folder.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A process that ends with the test, and the port that it says after this text.
async fn started(mut command: Command, before_port: &str) -> (Child, u16) {
    let command = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    let said = tokio::select! {
        port = port(child.stdout.take().unwrap(), before_port) => port,
        port = port(child.stderr.take().unwrap(), before_port) => port,
        () = tokio::time::sleep(PATIENCE) => panic!("the server does not say where it is"),
    };
    (child, said)
}

/// Goes on reading for ever after, so that the server never waits for us.
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
    // The other output may still say it.
    eprintln!("{heard}");
    std::future::pending().await
}

/// Whatever a server answers to a plain request, which must be a success.
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

/// A key in a URL.
fn encoded(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let encode = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    key.bytes().map(encode).collect()
}

/// A text in XML, as it was.
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
