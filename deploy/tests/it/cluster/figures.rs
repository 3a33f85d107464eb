//! Events from acknowledgement to shards: counts, and figures for one, two and three shards.

use super::test_env::ClusterEnv;
use crate::clickhouse_outage::test_env::{assert_all_acknowledged, exactly_once};
use millrace_load::{Plan, Stop, run_observed};
use millrace_rows::testing::number_from_env;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Events of a request.
const BATCH_EVENTS: u32 = 500;

#[test]
fn each_event_is_on_one_of_one_two_or_three_shards() {
    let events: u64 = number_from_env("MILLRACE_CLUSTER_EVENTS", 10_000);
    for shards in 1..=3 {
        let env = ClusterEnv::start(shards, 1);
        let dir = TempDir::new().unwrap();
        let ledger = dir.path().join("ledger");
        let plan = Plan {
            connections: 4,
            batch_events: BATCH_EVENTS,
            warm_up: Duration::ZERO,
            duration: Duration::from_secs(24 * 3_600),
            requests_max: Some(events / u64::from(BATCH_EVENTS)),
            ledger: Some(ledger.clone()),
            ..Plan::new(&format!("http://{}", env.ingest_addresses()[0]), env.key())
        };
        let started = Instant::now();
        let summary = run_observed(&plan, &Stop::default(), &mut |_| {}).unwrap();
        let acknowledged = started.elapsed();
        assert_all_acknowledged(&summary);
        let engine = env.shards[0].engine();
        let stored = exactly_once(&ledger, &engine.clickhouse("millrace.events"));
        assert_eq!(stored, plan.requests_max.unwrap() * u64::from(BATCH_EVENTS));
        let rows = env.on_each("SELECT count() FROM millrace.events_local");
        eprintln!(
            "{shards} shards: {stored} events acknowledged in {acknowledged:?}, stored and counted \
             in {:?}, {} on each",
            started.elapsed(),
            rows.join(", ")
        );
    }
}
