//! Clients that request the largest pages and do not read: their memory stays within the budget,
//! and other users are not affected.
//!
//! The test runs itself in another process, so that no other test's memory is measured.

use super::full_organization::FullOrganization;
use super::http::{RawResponse, get, request};
use millrace_admin::ApiConfig;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

/// Set for the process that measures.
const ALONE: &str = "MILLRACE_TEST_ALONE";
const NAME: &str = "bounds::unread::unread_responses_stay_within_their_memory_budget";
/// Users who read nothing.
const READERS: usize = 8;
/// Connections of each of them.
const CONNECTIONS: usize = 16;
/// Memory budget of one user, as in `deploy/THREATS.md`.
const SHARE_BYTES: u64 = 32 << 20;
/// Memory budget of all users, as in `deploy/THREATS.md`.
const ALL_BYTES: u64 = 256 << 20;
/// Time in which a client has to take what is written to it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(4);
/// Memory for requests in progress, and for caches of the catalog.
const SLACK_BYTES: u64 = 160 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unread_responses_stay_within_their_memory_budget() {
    if std::env::var_os(ALONE).is_some() {
        crate::fixture::on(millrace_catalog::testing::DatabaseKind::Sqlite, measured).await;
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut alone = Command::new(this);
    alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1");
    let ended = alone.kill_on_drop(true).output().await.unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    let errors = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{output}{errors}");
    assert!(output.contains("1 passed"), "{output}");
}

async fn measured() {
    let hurry = |config: &mut ApiConfig| config.write_timeout = WRITE_TIMEOUT;
    let full = FullOrganization::start(READERS + 1, hurry).await;
    let (address, data) = (full.server.address, &full.data);
    let largest = [
        "/api/organizations/:id/batch_exports/?limit=1000",
        "/api/organizations/:id/plugins/?limit=1000",
        "/api/organizations/:id/roles/?limit=1000",
        "/api/organizations/:id/activity/?limit=1000",
    ];
    let largest = largest.map(|path| {
        let (path, query) = path.split_once('?').unwrap();
        format!("{}?{query}", data.path(path))
    });
    let small = data.path("/api/organizations/:id/roles/:id/role_memberships/?limit=1");
    let (other, readers) = full.keys.split_last().unwrap();
    // Fills caches before the memory is measured.
    for path in &largest {
        assert_eq!(get(address, other, path).await.status, 200);
    }
    for (count, bytes_max) in [(1, SHARE_BYTES), (READERS, ALL_BYTES)] {
        let readers = &readers[..count];
        let before = memory_now();
        let mut held = Vec::new();
        for (reader, number) in (0..CONNECTIONS).flat_map(|it| readers.iter().map(move |r| (r, it)))
        {
            let path = &largest[number % largest.len()];
            held.push(asked(address, reader, path).await.unwrap());
        }
        let requested_at = Instant::now();
        for _ in 0..20 {
            assert_eq!(get(address, other, &small).await.status, 200);
        }
        // A user who reads nothing has used up the budget, until the connections are cut off.
        for reader in readers {
            while get(address, reader, &largest[0]).await.status != 200 {}
        }
        // Their own request may have come before those that take the budget: nothing is read before
        // the first responses are cut off.
        sleep_until(requested_at + WRITE_TIMEOUT * 2).await;
        let mut cut_off = 0;
        for connection in held {
            cut_off += usize::from(is_cut_off(connection).await);
        }
        let most = memory("VmHWM") - before;
        println!(
            "{} readers: {} MiB, {cut_off} cut off",
            readers.len(),
            most >> 20
        );
        assert!(cut_off >= readers.len(), "{cut_off}");
        assert!(
            most <= bytes_max + SLACK_BYTES,
            "{most} of {} readers",
            readers.len()
        );
    }
    full.server.stop().await;
}

/// Opens a connection with small kernel buffers and sends a request on it.
async fn asked(address: SocketAddr, key: &str, path: &str) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    let mut stream = socket.connect(address).await?;
    stream
        .write_all(request(address, key, path).as_bytes())
        .await?;
    Ok(stream)
}

/// Returns true if the connection closed before the response was complete.
async fn is_cut_off(mut connection: TcpStream) -> bool {
    let mut read = Vec::new();
    let ended = connection.read_to_end(&mut read).await;
    let answer = RawResponse::of(&read);
    ended.is_err() || answer.is_none_or(|answer| answer.body.len() < answer.length)
}

/// Resident memory of the process; resets the peak, which is measured from now on.
fn memory_now() -> u64 {
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    memory("VmRSS")
}

fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() * 1024
}
