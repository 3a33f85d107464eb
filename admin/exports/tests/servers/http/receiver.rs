//! A server that answers as it is told, one request after the other.

use crate::wire::Request;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// What a request is answered with.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A status, and headers.
    Status(u16, &'static str),
    /// Nothing, on a connection that stays open.
    Stall,
    /// The connection is cut before the body was read.
    CutEarly,
    /// The connection is cut when all was read.
    CutLate,
    /// The connection is cut in the middle of the head of an answer.
    CutWithin,
}

#[derive(Clone)]
pub struct Receiver {
    pub port: u16,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Receiver {
    /// Answers so, and then 200.
    pub async fn start(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver = Self {
            port: listener.local_addr().unwrap().port(),
            answers: Arc::new(Mutex::new(answers.iter().cloned().collect())),
            requests: Arc::default(),
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

    /// Requests that were read whole.
    pub fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }

    /// Answers one request; whether the connection goes on.
    async fn serve(&self, stream: &mut TcpStream) -> bool {
        let Some((mut request, length)) = Request::head(stream).await else {
            return false;
        };
        let answer = self.answers.lock().unwrap().pop_front();
        if matches!(answer, Some(Answer::CutEarly)) {
            return false;
        }
        request.body = vec![0; length];
        if stream.read_exact(&mut request.body).await.is_err() {
            return false;
        }
        self.requests.lock().unwrap().push(request);
        let said = match answer.unwrap_or(Answer::Status(200, "")) {
            // The body repeats what may not be repeated.
            Answer::Status(status, headers) => {
                format!("HTTP/1.1 {status} X\r\n{headers}content-length: 13\r\n\r\ncanary-token\n")
            }
            Answer::Stall => std::future::pending().await,
            Answer::CutWithin => "HTTP/1.1 20".to_owned(),
            Answer::CutEarly | Answer::CutLate => return false,
        };
        stream.write_all(said.as_bytes()).await.is_ok() && !said.ends_with("20")
    }
}
