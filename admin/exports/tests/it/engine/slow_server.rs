//! A server that takes one request of events, and keeps the next ones waiting until it is told.

use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

pub struct SlowServer {
    port: u16,
    /// How many more requests are answered.
    room: Arc<Semaphore>,
}

impl SlowServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            room: Arc::new(Semaphore::new(1)),
        };
        let room = Arc::clone(&server.room);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&room)));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/batch/", self.port)
    }

    /// Answers all from now on.
    pub fn go_on(&self) {
        self.room.add_permits(1_000_000);
    }
}

/// Answers the requests of one connection.
async fn serve(stream: TcpStream, room: Arc<Semaphore>) {
    let mut stream = BufReader::new(stream);
    while read(&mut stream).await {
        room.acquire().await.unwrap().forget();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// Reads one request; `false`: there is none.
async fn read(stream: &mut BufReader<TcpStream>) -> bool {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
            return false;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line.is_empty() {
            let mut body = vec![0; length];
            return stream.read_exact(&mut body).await.is_ok();
        }
    }
}
