//! Outage under load: latency of requests meanwhile, and speed of shipping the backlog afterwards.

use super::test_env::{Load, TestEnv, assert_all_acknowledged, fault_length};
use crate::server::DEADLINE;
use millrace_load::{Plan, Summary, run};
use std::time::{Duration, Instant};

/// Events per second, in an ordinary run and in one that measures.
const RATE: f64 = 4_000.0;
const RATE_MEASURED: f64 = 20_000.0;
/// Length of the outage in an ordinary run.
const LENGTH_MIN: Duration = Duration::from_secs(3);
/// Length of an outage from which on figures are compared with the promises.
const LENGTH_MEASURED: Duration = Duration::from_secs(60);
/// Lag at which the backlog counts as shipped: events of so many seconds are always under way.
const LAG_SECONDS: f64 = 3.0;

/// Tolerated growth of memory during an outage: it holds the inserts under way, and nothing else of
/// the backlog, which has more than a hundred times as many bytes.
const GROWTH_MIB_MAX: u64 = 128;

/// Interval of progress checks.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Runs load for a while.
fn run_for(env: &TestEnv, rate: f64, duration: Duration) -> Summary {
    let plan = Plan {
        duration,
        ..plan(env, rate)
    };
    let summary = run(&plan).unwrap();
    assert_all_acknowledged(&summary);
    summary
}

fn plan(env: &TestEnv, rate: f64) -> Plan {
    Plan {
        batch_events: 100,
        historical_share: 0.0,
        server_pid: u32::try_from(env.server.pid().as_raw_nonzero().get()).ok(),
        ..env.plan(rate)
    }
}

fn stored(env: &TestEnv) -> f64 {
    env.metric("millrace_insert_rows_total", "")
}

#[test]
fn a_backlog_is_shipped_after_an_outage_without_slowing_requests() {
    let length = fault_length().max(LENGTH_MIN);
    let is_measured = length >= LENGTH_MEASURED;
    let rate = if is_measured { RATE_MEASURED } else { RATE };
    let env = TestEnv::start(&[]);
    let before = run_for(&env, rate, length.min(LENGTH_MEASURED));
    env.proxy.set("down".parse().unwrap());
    let during = run_for(&env, rate, length);
    let mut acknowledged = before.run.acknowledged_events + during.run.acknowledged_events;
    let stored_before = stored(&env);
    let backlog = acknowledged as f64 - stored_before;

    let load = Load::start(plan(&env, rate));
    env.proxy.lift();
    let lifted = Instant::now();
    let due = |load: &Load| (acknowledged + load.acknowledged()) as f64 - rate * LAG_SECONDS;
    while stored(&env) < due(&load) {
        assert!(
            lifted.elapsed() < 2 * length + DEADLINE,
            "it never catches up"
        );
        std::thread::sleep(CHECK_INTERVAL);
    }
    let took = lifted.elapsed();
    let factor = (stored(&env) - stored_before) / took.as_secs_f64() / rate;
    let after = load.end();
    assert_all_acknowledged(&after);
    acknowledged += after.run.acknowledged_events;

    let p99_ms = [&before, &during, &after].map(|run| run.latency.p99_us / 1000.0);
    let resident = |run: &Summary| run.server.map_or(0, |server| server.rss_bytes_max);
    let resident_mib = [&before, &during, &after].map(|run| resident(run) >> 20);
    eprintln!(
        "outage of {length:?} at {rate} events/s: backlog {backlog}, caught up in {took:?}, \
         {factor:.1} times the arrival rate; before, during, after: p99 {p99_ms:.1?} ms, \
         resident {resident_mib:?} MiB"
    );
    if is_measured {
        assert!(factor >= 2.0, "it must catch up at twice the arrival rate");
        assert!(
            resident_mib[1] <= resident_mib[0] + GROWTH_MIB_MAX,
            "it holds the backlog"
        );
        assert!(p99_ms[1] <= 2.0 * p99_ms[0] + 5.0, "requests noticed");
    }
    assert_eq!(env.assert_exactly_once("millrace.events"), acknowledged);
}
