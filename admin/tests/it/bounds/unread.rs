//! Readers who ask for the largest pages there are and do not read: what they may have of the memory,
//! and that others notice nothing.
//!
//! The test runs once more by itself, in a process whose memory nobody else has.

use super::filled::Filled;
use super::http::{Answer, get, request};
use millrace_admin::ApiConfig;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::process::Command;

/// Set for the process that measures.
const ALONE: &str = "MILLRACE_TEST_ALONE";
const NAME: &str = "bounds::unread::readers_who_do_not_read_have_their_share_of_the_memory";
/// People who read nothing, and connections of each.
const READERS: usize = 8;
const CONNECTIONS: usize = 16;
/// What one of them has of the memory, and all: as `deploy/THREATS.md` says.
const SHARE_BYTES: u64 = 32 << 20;
const ALL_BYTES: u64 = 256 << 20;
/// What a few requests need that are being made, and caches of the catalog.
const SLACK_BYTES: u64 = 160 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_who_do_not_read_have_their_share_of_the_memory() {
    if std::env::var_os(ALONE).is_some() {
        crate::fixture::on(millrace_catalog::testing::DatabaseKind::Sqlite, measured).await;
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut alone = Command::new(this);
    alone.args(["--exact", NAME, "--nocapture"]).env(ALONE, "1");
    let ended = alone.kill_on_drop(true).output().await.unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    let why = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{told}{why}");
    assert!(told.contains("1 passed"), "{told}");
}

async fn measured() {
    let hurry = |config: &mut ApiConfig| config.write_timeout = Duration::from_secs(4);
    let filled = Filled::start(READERS + 1, hurry).await;
    let (address, world) = (filled.served.address, &filled.world);
    let largest = [
        "/api/organizations/:id/batch_exports/?limit=1000",
        "/api/organizations/:id/plugins/?limit=1000",
        "/api/organizations/:id/roles/?limit=1000",
        "/api/organizations/:id/activity/?limit=1000",
    ];
    let largest = largest.map(|path| {
        let (path, query) = path.split_once('?').unwrap();
        format!("{}?{query}", world.path(path))
    });
    let small = world.path("/api/organizations/:id/roles/:id/role_memberships/?limit=1");
    let (other, readers) = filled.keys.split_last().unwrap();
    // So that what is kept for good is there before.
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
        for _ in 0..20 {
            assert_eq!(get(address, other, &small).await.status, 200);
        }
        // Who reads nothing has no room for more, until they are cut off.
        for reader in readers {
            while get(address, reader, &largest[0]).await.status != 200 {}
        }
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
    filled.served.stop().await;
}

/// A connection on which somebody has asked, with hardly any room of the kernel's.
async fn asked(address: SocketAddr, key: &str, path: &str) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    let mut stream = socket.connect(address).await?;
    stream
        .write_all(request(address, key, path).as_bytes())
        .await?;
    Ok(stream)
}

/// Whether an answer ended before its end.
async fn is_cut_off(mut connection: TcpStream) -> bool {
    let mut read = Vec::new();
    let ended = connection.read_to_end(&mut read).await;
    let answer = Answer::of(&read);
    ended.is_err() || answer.is_none_or(|answer| answer.body.len() < answer.length)
}

/// What the process has of the memory; the most of it is counted from now on.
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
