//! Gateway from a TCP port to PostgreSQL's socket, which injects faults.

use super::endless_types::EndlessTypes;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::unix::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Notify, mpsc};
use tokio_rustls::TlsAcceptor;

/// Fault that is injected when a client sends a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GatewayFault {
    /// The connection is cut, and the server does not receive the text.
    CutBefore(&'static str),
    /// The server carries the statement out, and the connection is cut before its answer.
    CutAfter(&'static str),
    /// Nothing is passed on any more, starting with the text.
    StallBefore(&'static str),
    /// The answer does not end.
    AnswerWithoutEnd(&'static str),
    /// The session loses its temporary tables before the text, as behind a pooler that gives each
    /// transaction another session.
    DiscardTempBefore(&'static str),
    /// The statement with the text, and all that the client asks then, is answered with types
    /// without end.
    EndlessTypes(&'static str),
}

/// Query by which a session drops its temporary tables.
const DISCARD_TEMP: &[u8] = b"Q\0\0\0\x11DISCARD TEMP\0";
/// End of its answer, before one byte about the transaction.
const DISCARDED: &[u8] = b"DISCARD TEMP\0Z\0\0\0\x05";

/// Signals from the client's direction to the server's.
#[derive(Default)]
struct Signals {
    cut: Notify,
    endless: Notify,
    discard: Notify,
    discarded: Notify,
}

/// Gateway that ends with the test's runtime.
#[derive(Clone)]
pub struct Gateway {
    pub port: u16,
    fault: Arc<Mutex<Option<GatewayFault>>>,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Gateway {
    pub async fn start(socket: PathBuf, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let gateway = Self {
            port: listener.local_addr().unwrap().port(),
            fault: Arc::default(),
            seen: Arc::default(),
        };
        let shared = gateway.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (shared, socket, tls) = (shared.clone(), socket.clone(), tls.clone());
                tokio::spawn(async move { shared.serve(client, &socket, tls).await });
            }
        });
        gateway
    }

    /// Injects a fault once, into the next connection that sends its text.
    pub fn inject(&self, fault: GatewayFault) {
        *self.fault.lock().unwrap() = Some(fault);
    }

    /// Returns true if the fault was injected.
    pub fn has_happened(&self) -> bool {
        self.fault.lock().unwrap().is_none()
    }

    /// Bytes that clients sent.
    pub fn seen(&self) -> Vec<u8> {
        self.seen.lock().unwrap().clone()
    }

    async fn serve(&self, mut client: TcpStream, socket: &PathBuf, tls: Option<TlsAcceptor>) {
        let server = UnixStream::connect(socket).await.unwrap();
        let Some(tls) = tls else {
            return self.pass(client, server).await;
        };
        let mut request = [0; 8];
        client.read_exact(&mut request).await.unwrap();
        assert_eq!(
            &request[4..],
            80_877_103_u32.to_be_bytes(),
            "a request for TLS"
        );
        client.write_all(b"S").await.unwrap();
        // Clients that refuse the certificate disconnect.
        if let Ok(client) = tls.accept(client).await {
            self.pass(client, server).await;
        }
    }

    async fn pass(&self, client: impl AsyncRead + AsyncWrite, server: UnixStream) {
        let (mut from_client, to_client) = tokio::io::split(client);
        let (from_server, mut to_server) = server.into_split();
        let signals = Signals::default();
        let (answers, answered) = mpsc::channel(1);
        let up = async {
            let mut types: Option<EndlessTypes> = None;
            // Earlier bytes are kept, as statements may arrive in pieces.
            let mut said = Vec::new();
            let mut buffer = vec![0; 16 << 10];
            loop {
                let length = from_client.read(&mut buffer).await.unwrap_or(0);
                let piece = &buffer[..length];
                self.seen
                    .lock()
                    .unwrap()
                    .extend_from_slice(&piece[..length.min(512)]);
                said.extend_from_slice(piece);
                let fault = self.due_fault(&said);
                match &fault {
                    Some(GatewayFault::CutBefore(_)) => return,
                    Some(GatewayFault::StallBefore(_)) => std::future::pending().await,
                    Some(GatewayFault::AnswerWithoutEnd(_)) => {
                        signals.endless.notify_one();
                        std::future::pending::<()>().await;
                    }
                    Some(GatewayFault::DiscardTempBefore(_)) => {
                        signals.discard.notify_one();
                        if to_server.write_all(DISCARD_TEMP).await.is_err() {
                            return;
                        }
                        signals.discarded.notified().await;
                    }
                    Some(GatewayFault::CutAfter(_)) => signals.cut.notify_one(),
                    Some(GatewayFault::EndlessTypes(_)) => types = Some(EndlessTypes::default()),
                    None => {}
                }
                if let Some(types) = &mut types
                    && length > 0
                {
                    if answers.send(types.answers(piece)).await.is_err() {
                        return;
                    }
                    continue;
                }
                said.drain(..said.len().saturating_sub(64));
                if length == 0 || to_server.write_all(piece).await.is_err() {
                    return;
                }
            }
        };
        let down = pass_down(from_server, to_client, &signals, answered);
        tokio::select! { () = up => {}, () = down => {} }
    }

    /// Fault to inject now.
    fn due_fault(&self, said: &[u8]) -> Option<GatewayFault> {
        let mut fault = self.fault.lock().unwrap();
        let at = match fault.as_ref()? {
            GatewayFault::CutBefore(at)
            | GatewayFault::CutAfter(at)
            | GatewayFault::StallBefore(at)
            | GatewayFault::AnswerWithoutEnd(at)
            | GatewayFault::DiscardTempBefore(at)
            | GatewayFault::EndlessTypes(at) => at.as_bytes(),
        };
        let heard = said.windows(at.len()).any(|window| window == at);
        if heard { fault.take() } else { None }
    }
}

/// Passes a server's answers on, or others for a fault.
async fn pass_down(
    mut from_server: OwnedReadHalf,
    mut to_client: impl AsyncWrite + Unpin,
    signals: &Signals,
    mut answered: mpsc::Receiver<Vec<u8>>,
) {
    let mut buffer = vec![0; 16 << 10];
    loop {
        let length = tokio::select! {
            biased;
            // The server's answer is read, and not passed on.
            () = signals.cut.notified() => {
                let _ = from_server.read(&mut buffer).await;
                return;
            }
            () = signals.endless.notified() => return send_without_end(&mut to_client).await,
            () = signals.discard.notified() => {
                let others = without_discard(&mut from_server).await;
                signals.discarded.notify_one();
                if to_client.write_all(&others).await.is_err() {
                    return;
                }
                continue;
            }
            Some(answers) = answered.recv() => {
                if to_client.write_all(&answers).await.is_err() {
                    return;
                }
                continue;
            }
            length = from_server.read(&mut buffer) => length.unwrap_or(0),
        };
        if length == 0 || to_client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

/// Sends a notice of two gigabytes.
async fn send_without_end(client: &mut (impl AsyncWrite + Unpin)) {
    let piece = vec![0; 16 << 10];
    let mut sent = client.write_all(&[b'N', 0x7f, 0xff, 0xff, 0xff]).await;
    while sent.is_ok() {
        sent = client.write_all(&piece).await;
    }
}

/// Reads up to the answer to [`DISCARD_TEMP`], and returns the answers to the client beside it.
async fn without_discard(server: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let (mut read, mut buffer) = (Vec::new(), [0; 1 << 10]);
    loop {
        let length = server.read(&mut buffer).await.unwrap();
        assert!(length > 0, "the server closed the connection");
        read.extend_from_slice(&buffer[..length]);
        let mut windows = read.windows(DISCARDED.len());
        let found = windows.position(|window| window == DISCARDED);
        let end = found.map(|at| at + DISCARDED.len() + 1);
        if let (Some(at), Some(end)) = (found, end.filter(|end| *end <= read.len())) {
            // The tag stands behind the kind and the length of its message.
            read.drain(at - 5..end);
            return read;
        }
    }
}
