//! Catalogue on a server: nothing outside of its address is requested.

use millrace_admin::plugin_catalogue::{
    CatalogueError, CatalogueSource, CatalogueSourceError, PluginCatalogue,
};
use millrace_organizations::{PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX};
use serde_json::json;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Raw responses by their paths.
type Answers = HashMap<String, String>;

/// HTTP server that records the paths of its requests.
struct Server {
    address: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            answers: Arc::default(),
            asked: Arc::default(),
        };
        let (answers, asked) = (server.answers.clone(), server.asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                answer(stream, &answers, &asked).await;
            }
        });
        server
    }

    fn put(&self, path: &str, text: &str) {
        let answer = format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        self.put_answer(path, answer);
    }

    fn put_answer(&self, path: &str, answer: String) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Publishes a plugin with the address `u` and these files below `/c/`.
    fn offer(&self, path: &str, files: &[String]) {
        let index = json!([{
            "name": "a", "url": "u", "type": "data_in", "tag": "1", "path": path, "files": files,
        }]);
        self.put("/c/plugins.json", &index.to_string());
    }

    fn catalogue(&self) -> PluginCatalogue {
        let source = CatalogueSource::parse(&format!("http://{}/c", self.address));
        PluginCatalogue::new(source.unwrap())
    }
}

async fn answer(stream: TcpStream, answers: &Mutex<Answers>, asked: &Mutex<Vec<String>>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.unwrap();
    let path = line.split(' ').nth(1).unwrap().to_owned();
    while line != "\r\n" {
        line.clear();
        stream.read_line(&mut line).await.unwrap();
    }
    let answer = answers.lock().unwrap().get(&path).cloned();
    asked.lock().unwrap().push(path);
    let missing = || "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
    let answer = answer.unwrap_or_else(missing);
    stream.write_all(answer.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
}

#[tokio::test]
async fn only_files_below_the_catalogues_address_are_read() {
    let server = Server::start().await;
    let catalogue = server.catalogue();
    server.put("/c/a/index.js", "here");
    server.put("/c/index.js", "here");
    server.put("/outside", "secret");
    let moved = format!(
        "HTTP/1.1 302 Found\r\nLocation: http://{}/outside\r\nContent-Length: 6\r\n\r\nsecret",
        server.address
    );
    server.put_answer("/c/moved", moved);
    for (path, file) in [("a", "index.js"), ("", "index.js"), ("a/", "index.js")] {
        server.offer(path, &[file.to_owned()]);
        let release = catalogue.release("u").await.unwrap().unwrap();
        assert_eq!(release.files, [(file.to_owned(), "here".to_owned())]);
    }
    let address = server.address;
    let elsewhere = [
        format!("http://{address}/outside"),
        format!("http:{address}/outside"),
        format!("\\\\{address}\\outside"),
        format!("//{address}/outside"),
        format!("\t//{address}/outside"),
        "\\outside".to_owned(),
        "..\\outside".to_owned(),
        "../outside".to_owned(),
        "%2e%2e/outside".to_owned(),
        "a/.%2E/%2e./outside".to_owned(),
        "\t/outside".to_owned(),
        "moved".to_owned(),
    ];
    for file in elsewhere {
        server.offer("", std::slice::from_ref(&file));
        let error = catalogue.release("u").await.unwrap_err();
        let is_unreadable = matches!(error, CatalogueError::Unreadable { .. });
        assert!(is_unreadable, "{file:?}: {error}");
    }
    let asked = server.asked.lock().unwrap();
    assert!(!asked.iter().any(|path| path == "/outside"), "{asked:?}");
}

#[tokio::test]
async fn reading_an_oversized_plugin_stops_at_the_limit() {
    let server = Server::start().await;
    let catalogue = server.catalogue();
    let name = |file: usize| format!("f{file}");
    let many: Vec<_> = (0..=PLUGIN_FILES_MAX).map(name).collect();
    let text = "x".repeat(1_000_000);
    let large: Vec<_> = (0..20).map(name).collect();
    for file in &large {
        server.put(&format!("/c/{file}"), &text);
    }
    for (files, reads) in [(many, 0), (large, PLUGIN_SOURCE_BYTES_MAX / text.len() + 1)] {
        server.offer("", &files);
        server.asked.lock().unwrap().clear();
        let error = catalogue.release("u").await.unwrap_err();
        let is_malformed = matches!(error, CatalogueError::Malformed { .. });
        assert!(is_malformed, "{error}");
        let asked = server.asked.lock().unwrap().len();
        assert_eq!(asked, 1 + reads, "the list, and as many files as may be");
    }
}

#[test]
fn a_catalogue_url_with_a_query_or_fragment_is_refused() {
    for text in ["https://c.example/p?token=x", "https://c.example/#p"] {
        let error = CatalogueSource::parse(text).unwrap_err();
        assert!(matches!(error, CatalogueSourceError::Query), "{text}");
    }
}
