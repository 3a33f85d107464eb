//! Clients of the native protocol: their hello is read, then bytes pass both ways as they come.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::acceptor::{Accepted, Phase, Phases};
use super::access::{Access, is_of_session};
use super::hello::{Hello, exception};
use super::pace::WINDOW;
use super::upstream::BUFFER_BYTES_MAX;
use crate::cached_users::CachedUsers;
use crate::users_file::Credential;

/// Time within which the hello must arrive.
const HELLO_MAX: Duration = Duration::from_secs(5);
/// Time within which the engine answers a hello: longer than it asks the login server.
const LOGIN_MAX: Duration = Duration::from_secs(30);
/// Pause between two looks whether a password still holds.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time after which an engine that runs no statement any more has written all.
const QUIET: Duration = Duration::from_millis(20);
/// First byte of the engine's answer to a hello that it accepts.
const ACCEPTED: u8 = 0;
/// Code of a refused login (`AUTHENTICATION_FAILED`).
const REFUSED: i32 = 516;

/// Native interface of one engine.
pub(super) struct NativeGate {
    shared: Arc<Shared>,
}

struct Shared {
    engine: SocketAddr,
    access: Arc<Access>,
    /// Users whose passwords change; `None` if there are none.
    users: Option<Arc<CachedUsers>>,
}

// === impl NativeGate ===

impl NativeGate {
    pub(super) fn new(
        engine: SocketAddr,
        access: Arc<Access>,
        users: Option<Arc<CachedUsers>>,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                engine,
                access,
                users,
            }),
        }
    }

    /// Serves a connection to its end.
    pub(super) fn serve(&self, accepted: Accepted) -> impl Future<Output = ()> + use<> {
        let shared = Arc::clone(&self.shared);
        async move {
            if let Err(error) = shared.pass(accepted).await {
                tracing::debug!(%error, "a native connection to ClickHouse ended early");
            }
        }
    }
}

// === impl Shared ===

impl Shared {
    async fn pass(&self, accepted: Accepted) -> io::Result<()> {
        let Accepted {
            mut tcp,
            address,
            place,
            phases,
        } = accepted;
        let (reader, mut writer) = tcp.split();
        let mut reader = BufReader::with_capacity(BUFFER_BYTES_MAX, reader);
        let hello = timeout(HELLO_MAX, Hello::read(&mut reader)).await??;
        if !self.access.permits(&hello.user, address) {
            let message = "this user may not come from this address: see clickhouse_networks";
            return writer.write_all(&exception(REFUSED, message)).await;
        }
        if is_of_session(&hello.user) {
            // The engine would say that a session is one too many.
            let message = "name a user and its password: default is the engine's own";
            return writer.write_all(&exception(REFUSED, message)).await;
        }
        let write_max = (!self.access.is_of_program(&hello.user)).then_some(WINDOW);
        let mut engine = TcpStream::connect(self.engine).await?;
        engine.set_nodelay(true)?;
        let (from_engine, mut to_engine) = engine.split();
        let mut from_engine = BufReader::with_capacity(BUFFER_BYTES_MAX, from_engine);
        to_engine.write_all(&hello.bytes).await?;
        let first = timeout(LOGIN_MAX, from_engine.fill_buf()).await??;
        let mut credential = None;
        if first.first() == Some(&ACCEPTED) {
            place.set_logged_in();
            place.set_busy(true);
            credential = self.credential(&hello);
        }
        drop(hello);
        // Whichever side ends first ends the other: the engine stops what nobody waits for.
        tokio::select! {
            passed = pass_all(&mut reader, &mut to_engine) => passed,
            passed = pass_answers(&mut from_engine, &mut writer, write_max, phases) => passed,
            () = self.revoked(credential) => Err(io::Error::other("another password holds")),
        }
    }

    /// Password that may be given up while the connection is open.
    fn credential(&self, hello: &Hello) -> Option<Credential> {
        let changes = self.users.is_some() && !self.access.is_of_program(&hello.user);
        let credential = changes.then(|| Credential::of(&hello.user, &hello.password));
        credential.flatten()
    }

    /// Waits until a password is given up.
    async fn revoked(&self, credential: Option<Credential>) {
        let (Some(users), Some(credential)) = (&self.users, credential) else {
            return std::future::pending().await;
        };
        while users.accepts(&credential) {
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Passes on what a client sends, to its end.
async fn pass_all(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
) -> io::Result<()> {
    loop {
        let piece = from.fill_buf().await?;
        let bytes = piece.len();
        if bytes == 0 {
            return Ok(());
        }
        if to.write_all(piece).await.is_err() {
            // An engine that closes the connection has said why.
            return std::future::pending().await;
        }
        from.consume(bytes);
    }
}

/// Passes on what the engine sends, each piece within `write_max`, to its end or that of its
/// statements.
async fn pass_answers(
    from: &mut (impl AsyncBufRead + Unpin),
    to: &mut (impl AsyncWrite + Unpin),
    write_max: Option<Duration>,
    mut phases: Phases,
) -> io::Result<()> {
    loop {
        let is_idle = tokio::select! {
            piece = from.fill_buf() => piece.map(|_| false)?,
            () = phases.reached(Phase::Idle) => true,
        };
        // What an idle engine has written is there at once.
        if is_idle && timeout(QUIET, from.fill_buf()).await.is_err() {
            return Ok(());
        }
        let piece = from.fill_buf().await?;
        let bytes = piece.len();
        if bytes == 0 {
            return Ok(());
        }
        match write_max {
            Some(write_max) => timeout(write_max, to.write_all(piece)).await??,
            None => to.write_all(piece).await?,
        }
        from.consume(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;
    use tokio::sync::watch;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_30_seconds_is_ended() {
        for (write_max, expected) in [(Some(WINDOW), true), (None, false)] {
            let (_sender, phases) = watch::channel(Phase::Serving);
            // Nobody reads at the other end.
            let (_client, mut to) = tokio::io::duplex(1024);
            let mut from = BufReader::new(tokio::io::repeat(7));
            let passed = pass_answers(&mut from, &mut to, write_max, Phases::new(phases));
            let ended = timeout(2 * WINDOW, passed).await;
            assert_eq!(ended.is_ok(), expected, "{write_max:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_an_idle_engine_has_written_is_passed_on() {
        let (sender, phases) = watch::channel(Phase::Serving);
        let (mut client, mut to) = tokio::io::duplex(1024);
        let (mut engine, from) = tokio::io::duplex(1 << 20);
        engine.write_all(&[7; 100_000]).await.unwrap();
        sender.send_replace(Phase::Idle);
        let mut from = BufReader::new(from);
        let (passed, read) = tokio::join!(
            async {
                let phases = Phases::new(phases);
                let passed = pass_answers(&mut from, &mut to, None, phases).await;
                drop(to);
                passed
            },
            async {
                let mut read = Vec::new();
                client.read_to_end(&mut read).await.map(|_| read.len())
            }
        );
        passed.unwrap();
        assert_eq!(read.unwrap(), 100_000);
        // It is still open.
        engine.write_all(b"more").await.unwrap();
    }
}
