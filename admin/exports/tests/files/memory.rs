//! Memory does not grow with the window.

use crate::place::{LocalFolder, Place};
use crate::servers::s3s::S3s;
use crate::support::run;
use bytes::Bytes;
use serde_json::json;
use std::process::Command;

const PIECES: usize = 256;
const PIECE_BYTES: usize = 1 << 20;
/// Of the process, with the test's own needs.
const RESIDENT_KIB_MAX: u64 = 100 << 10;
/// Before the figure in what a test says.
const SAID: &str = "most memory resident:";

/// Runs by itself, too; in a process of its own, below.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quarter_of_a_gigabyte_arrives() {
    let (server, folder) = (S3s::start().await, LocalFolder::new());
    let places: [&dyn Place; 2] = [&server, &folder];
    for place in places {
        let destination = place.open("long", json!({}));
        let mut delivery = destination.begin(&run(0), 1).await.unwrap();
        let noise: Vec<u8> = (0..PIECE_BYTES).map(|n| (n * n % 251) as u8).collect();
        for _ in 0..PIECES {
            // A piece of its own each time, as from ClickHouse.
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

#[test]
fn a_long_file_takes_no_more_memory_than_a_few_parts() {
    let run = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "memory::a_quarter_of_a_gigabyte_arrives",
            "--nocapture",
        ])
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
