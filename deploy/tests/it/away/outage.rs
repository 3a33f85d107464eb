//! ClickHouse gone under load, and back: how requests fare meanwhile, and how fast it catches up.

use super::stand::{Load, Stand, assert_all_acknowledged, fault_length};
use crate::server::DEADLINE;
use millrace_load::{Plan, Summary, run};
use std::time::{Duration, Instant};

/// Events due per second, in an ordinary run and in one whose figures are to say something.
const RATE: f64 = 4_000.0;
const RATE_TELLING: f64 = 20_000.0;
/// The outage of an ordinary run of the tests.
const LENGTH_MIN: Duration = Duration::from_secs(3);
/// From here on, figures say something and are held to what is promised.
const LENGTH_TELLING: Duration = Duration::from_secs(60);
/// Shipped to within what was acknowledged in so many seconds: no more is on its way when all is
/// well.
const LAG_SECONDS: f64 = 3.0;

/// How much memory may grow during an outage: inserts under way are held in it, and nothing else of
/// the backlog, which has more than a hundred times as many bytes.
const GROWTH_MIB_MAX: u64 = 128;

/// How often the shipper is asked how far it is.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The server under load for a while.
fn run_for(stand: &Stand, rate: f64, duration: Duration) -> Summary {
    let plan = Plan {
        duration,
        ..plan(stand, rate)
    };
    let summary = run(&plan).unwrap();
    assert_all_acknowledged(&summary);
    summary
}

fn plan(stand: &Stand, rate: f64) -> Plan {
    Plan {
        batch_events: 100,
        historical_share: 0.0,
        server_pid: u32::try_from(stand.server.pid().as_raw_nonzero().get()).ok(),
        ..stand.plan(rate)
    }
}

fn stored(stand: &Stand) -> f64 {
    stand.metric("millrace_insert_rows_total", "")
}

#[test]
fn an_outage_is_caught_up_and_requests_do_not_notice() {
    let length = fault_length().max(LENGTH_MIN);
    let is_telling = length >= LENGTH_TELLING;
    let rate = if is_telling { RATE_TELLING } else { RATE };
    let stand = Stand::start(&[]);
    let before = run_for(&stand, rate, length.min(LENGTH_TELLING));
    stand.proxy.set("down".parse().unwrap());
    let during = run_for(&stand, rate, length);
    let mut acknowledged = before.run.acknowledged_events + during.run.acknowledged_events;
    let stored_before = stored(&stand);
    let backlog = acknowledged as f64 - stored_before;

    let load = Load::start(plan(&stand, rate));
    stand.proxy.lift();
    let lifted = Instant::now();
    let due = |load: &Load| (acknowledged + load.acknowledged()) as f64 - rate * LAG_SECONDS;
    while stored(&stand) < due(&load) {
        assert!(
            lifted.elapsed() < 2 * length + DEADLINE,
            "it never catches up"
        );
        std::thread::sleep(LOOK_AGAIN);
    }
    let took = lifted.elapsed();
    let factor = (stored(&stand) - stored_before) / took.as_secs_f64() / rate;
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
    if is_telling {
        assert!(factor >= 2.0, "it must catch up at twice the arrival rate");
        assert!(
            resident_mib[1] <= resident_mib[0] + GROWTH_MIB_MAX,
            "it holds the backlog"
        );
        assert!(p99_ms[1] <= 2.0 * p99_ms[0] + 5.0, "requests noticed");
    }
    assert_eq!(stand.assert_exactly_once("millrace.events"), acknowledged);
}
