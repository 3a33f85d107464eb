//! Tests that memory does not grow with the window.

use crate::servers::s3s::S3s;
use crate::support::run;
use crate::test_store::{LocalFolder, TestStore};
use bytes::Bytes;
use serde_json::json;
use std::process::Command;

const PIECES: usize = 256;
const PIECE_BYTES: usize = 1 << 20;
/// Resident memory of the process at most, including the test's own.
const RESIDENT_KIB_MAX: u64 = 100 << 10;
/// Set for the process that measures.
const ALONE: &str = "MILLRACE_TEST_ALONE";
/// Text before the figure in a test's output.
const SAID: &str = "most memory resident:";

async fn deliver_a_quarter_of_a_gigabyte() {
    let (server, folder) = (S3s::start().await, LocalFolder::new());
    let stores: [&dyn TestStore; 2] = [&server, &folder];
    for store in stores {
        let destination = store.open("long", json!({}));
        let mut delivery = destination.begin(&run(0), 1).await.unwrap();
        let noise: Vec<u8> = (0..PIECE_BYTES).map(|n| (n * n % 251) as u8).collect();
        for _ in 0..PIECES {
            // A new piece each time, as from ClickHouse.
            delivery
                .write(Bytes::copy_from_slice(&noise))
                .await
                .unwrap();
        }
        delivery.end_part(1).await.unwrap();
        let delivered = delivery.publish().await.unwrap();
        assert_eq!(delivered.bytes, (PIECES * PIECE_BYTES) as u64);
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    println!("{SAID}{}", most.unwrap());
}

/// Runs itself in another process, so that no other test's memory is measured.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_file_takes_the_memory_of_a_few_parts() {
    if std::env::var_os(ALONE).is_some() {
        return deliver_a_quarter_of_a_gigabyte().await;
    }
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "memory::a_long_file_takes_the_memory_of_a_few_parts",
            "--nocapture",
        ])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
    let (_, most) = said.split_once(SAID).unwrap();
    let most: u64 = most
        .trim_start()
        .split(' ')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    assert!(most <= RESIDENT_KIB_MAX, "{most} KiB");
    eprintln!("{most} KiB");
}
