//! Server with scripted answers to one request after the other.

use crate::wire::Request;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Bytes of an endless body, after which the connection is cut all the same.
const ENDLESS_BYTES: usize = 256 << 20;

/// Scripted answer to a request.
#[derive(Clone, Debug)]
pub enum ScriptedAnswer {
    /// Status and headers.
    Status(u16, &'static str),
    /// Status and a body that is sent for as long as somebody reads it.
    Endless(u16),
    /// No answer, on a connection that stays open.
    Stall,
    /// The connection is cut before the body was read.
    CutEarly,
    /// The connection is cut after the body was read.
    CutLate,
    /// The connection is cut in the middle of the head of an answer.
    CutWithin,
}

#[derive(Clone)]
pub struct Receiver {
    pub port: u16,
    answers: Arc<Mutex<VecDeque<ScriptedAnswer>>>,
    requests: Arc<Mutex<Vec<Request>>>,
    taken_bytes: Arc<AtomicUsize>,
}

impl Receiver {
    /// Starts a server that gives these answers, and then 200.
    pub async fn start(answers: &[ScriptedAnswer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            port: listener.local_addr().unwrap().port(),
            answers: Arc::new(Mutex::new(answers.iter().cloned().collect())),
            requests: Arc::default(),
            taken_bytes: Arc::default(),
        };
        let shared = receiver.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let shared = shared.clone();
                tokio::spawn(async move { while shared.serve(&mut stream).await {} });
            }
        });
        receiver
    }

    /// Requests that were read completely.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Bytes of endless bodies that were taken so far, those in buffers of the kernel included.
    pub fn taken_bytes(&self) -> usize {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Sends the head of an answer and a body without an end.
    async fn send_endless_body(&self, stream: &mut TcpStream, status: u16) {
        let piece = vec![b'x'; 1 << 20];
        let head = format!("HTTP/1.1 {status} X\r\n\r\n");
        let mut sent = stream.write_all(head.as_bytes()).await;
        let mut bytes = 0;
        while sent.is_ok() && bytes < ENDLESS_BYTES {
            sent = stream.write_all(&piece).await;
            bytes += piece.len();
            self.taken_bytes.fetch_add(piece.len(), Ordering::Relaxed);
        }
    }

    /// Answers one request; returns true if the connection stays open.
    async fn serve(&self, stream: &mut TcpStream) -> bool {
        let Some((mut request, length)) = Request::head(stream).await else {
            return false;
        };
        let answer = self.answers.lock().unwrap().pop_front();
        if matches!(answer, Some(ScriptedAnswer::CutEarly)) {
            return false;
        }
        request.body = vec![0; length];
        if stream.read_exact(&mut request.body).await.is_err() {
            return false;
        }
        self.requests.lock().unwrap().push(request);
        let said = match answer.unwrap_or(ScriptedAnswer::Status(200, "")) {
            // The body has a secret that may not be repeated.
            ScriptedAnswer::Status(status, headers) => {
                format!("HTTP/1.1 {status} X\r\n{headers}content-length: 13\r\n\r\ncanary-token\n")
            }
            ScriptedAnswer::Endless(status) => {
                self.send_endless_body(stream, status).await;
                return false;
            }
            ScriptedAnswer::Stall => std::future::pending().await,
            ScriptedAnswer::CutWithin => "HTTP/1.1 20".to_owned(),
            ScriptedAnswer::CutEarly | ScriptedAnswer::CutLate => return false,
        };
        stream.write_all(said.as_bytes()).await.is_ok() && !said.ends_with("20")
    }
}
