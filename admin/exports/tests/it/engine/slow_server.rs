//! Server that answers one request with events, and holds the next ones until they are released.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub struct SlowServer {
    port: u16,
    /// Permits to answer further requests.
    permits: Arc<Semaphore>,
    /// Bytes of the bodies that were answered.
    taken: Arc<AtomicU64>,
}

impl SlowServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            permits: Arc::new(Semaphore::new(1)),
            taken: Arc::default(),
        };
        let (permits, taken) = (Arc::clone(&server.permits), Arc::clone(&server.taken));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&permits), Arc::clone(&taken)));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/batch/", self.port)
    }

    /// Bytes of the bodies that were answered.
    pub fn taken(&self) -> i64 {
        self.taken.load(Ordering::Relaxed).try_into().unwrap()
    }

    /// Answers all from now on.
    pub fn go_on(&self) {
        self.permits.add_permits(1_000_000);
    }
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, permits: Arc<Semaphore>, taken: Arc<AtomicU64>) {
    let mut stream = BufReader::new(stream);
    while let Some(body) = read(&mut stream).await {
        permits.acquire().await.unwrap().forget();
        taken.fetch_add(body.len() as u64, Ordering::Relaxed);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Reads one request: its body; `None`: there is none.
pub async fn read(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return None;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await.ok()?;
            return Some(body);
        }
    }
}
