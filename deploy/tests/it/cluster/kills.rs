//! Shards and nodes that are killed, cut off and slow.

use super::test_env::{ClusterEnv, Counts, send};
use millrace_rows::testing::number_from_env;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use uuid::Uuid;

const SHARDS: usize = 3;
const NODES: usize = 2;
/// Events of a request.
const EVENTS: u32 = 30;
/// Tables that have a row of each event.
const TABLES: [&str; 2] = ["events", "person_updates"];

/// Requests by the name of their events, and whether each was acknowledged.
type Sent = Vec<(String, bool)>;

/// Sends requests to a node, one after the other, until it is stopped. Every third has one uuid for
/// all of its events, which are on several shards.
fn keep_sending(
    to: SocketAddr,
    key: String,
    node: usize,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Sent> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut sent = Sent::new();
        while !stop.load(Ordering::Relaxed) {
            let event = format!("{node}-{}", sent.len());
            let uuid = sent.len().is_multiple_of(3).then(Uuid::new_v4);
            let is_acknowledged = send(to, &key, &event, EVENTS, uuid);
            sent.push((event, is_acknowledged));
            thread::sleep(Duration::from_millis(20));
        }
        sent
    })
}

/// Harms the cluster for a while, in a way that the number tells.
fn harm(env: &mut ClusterEnv, way: u32, rng: &mut StdRng) {
    let (shard, node) = (rng.random_range(0..SHARDS), rng.random_range(0..NODES));
    let while_it_lasts = Duration::from_millis(rng.random_range(0..1_500));
    eprintln!("way {way}: shard {shard}, node {node}, for {while_it_lasts:?}");
    match way % 6 {
        0 => {
            env.shards[shard].kill();
            thread::sleep(while_it_lasts);
            env.start_shard(shard);
        }
        1 => {
            env.kill_node(node);
            thread::sleep(while_it_lasts);
            env.start_node(node);
        }
        2 => {
            env.shards[shard].kill();
            env.kill_node(node);
            thread::sleep(while_it_lasts);
            env.start_node(node);
            env.start_shard(shard);
        }
        3 => {
            env.shards[shard].link.cut(true);
            thread::sleep(while_it_lasts);
            env.shards[shard].link.cut(false);
        }
        4 => {
            let delay = Duration::from_millis(rng.random_range(1..400));
            env.shards[shard].link.slow_down(delay);
            thread::sleep(while_it_lasts);
            env.shards[shard].kill();
            env.shards[shard].link.slow_down(Duration::ZERO);
            env.start_shard(shard);
        }
        // What waited at the node's start is in doubt, and is sent while connections end.
        _ => {
            env.kill_node(node);
            thread::sleep(while_it_lasts);
            env.start_node(node);
            for _ in 0..10 {
                env.shards[shard].link.cut(true);
                thread::sleep(Duration::from_millis(50));
                env.shards[shard].link.cut(false);
                thread::sleep(Duration::from_millis(rng.random_range(0..200)));
            }
        }
    }
    thread::sleep(Duration::from_millis(rng.random_range(0..800)));
}

#[test]
fn shards_and_nodes_that_are_killed_cut_off_and_slow_store_each_event_once() {
    let kills: u32 = number_from_env("MILLRACE_CLUSTER_KILLS", 6);
    let seed: u64 = number_from_env("MILLRACE_CLUSTER_SEED", rand::random());
    eprintln!("MILLRACE_CLUSTER_SEED={seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut env = ClusterEnv::start(SHARDS, NODES);
    let stop = Arc::new(AtomicBool::new(false));
    let senders: Vec<JoinHandle<Sent>> = env
        .ingest_addresses()
        .into_iter()
        .enumerate()
        .map(|(node, to)| keep_sending(to, env.key().to_owned(), node, &stop))
        .collect();
    for way in 0..kills {
        harm(&mut env, way, &mut rng);
    }
    stop.store(true, Ordering::Relaxed);
    let sent: Sent = senders
        .into_iter()
        .flat_map(|sender| sender.join().unwrap())
        .collect();
    let acknowledged = sent.iter().filter(|(_, is_acknowledged)| *is_acknowledged);
    let acknowledged: Vec<&String> = acknowledged.map(|(event, _)| event).collect();
    assert!(acknowledged.len() > kills as usize, "{}", sent.len());
    let all = u64::from(EVENTS);
    let are_stored = |counts: &Counts| {
        let is_stored = |event: &&String| counts.contains_key(*event);
        acknowledged.iter().all(is_stored) && counts.values().all(|(rows, _)| *rows >= all)
    };
    for table in TABLES {
        env.until_counts(table, "every acknowledged event", are_stored);
    }
    // A row that is stored twice may come late.
    env.until_shipped();
    for table in TABLES {
        let counts = env.counts(table).unwrap();
        assert!(are_stored(&counts), "{table}: {counts:?}");
        // What was not acknowledged is stored as a whole or not at all.
        let wrong = counts.iter().filter(|(_, counts)| **counts != (all, all));
        assert_eq!(wrong.count(), 0, "{table}: {counts:?}");
        eprintln!(
            "{table}: {} of {} requests acknowledged, {} stored, after {kills} faults",
            acknowledged.len(),
            sent.len(),
            counts.len()
        );
    }
    assert!(env.dead_letters().is_empty(), "{:?}", env.dead_letters());
}
