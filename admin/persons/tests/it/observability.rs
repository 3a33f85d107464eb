//! Metrics and warnings by which operators notice growth, and updates that are left out: from the
//! worker itself, as alerts see them.

use crate::fairness::{finish, of_new_id, pass};
use crate::test_env::{NOW, TestEnv, options};
use crate::working::register;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use millrace_catalog::testing::TestDatabase;
use millrace_persons::{GrowthLimits, WorkerOptions};
use millrace_rows::Micros;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber};

on_both!(
    new_ids_over_the_limit_are_counted_and_warned_of_once,
    an_update_that_is_too_large_is_logged_with_its_event_and_largest_property,
    the_size_of_the_catalog_is_measured_by_every_worker,
);

const HOUR: i64 = 3_600_000_000;
const DROPPED: &str = "millrace_person_updates_dropped_total{reason=\"too_many_new_ids\"} ";
const TOO_LARGE: &str = "millrace_person_updates_dropped_total{reason=\"too_large\"} ";

/// Writer of a log that is read afterwards.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

/// Begins a log of this thread, which ends when the guards are dropped.
fn log_of_this_thread() -> (Written, (Dispatch, DefaultGuard)) {
    let written = Written::default();
    let writer = written.clone();
    // With one subscriber only, threads without one turn events off for ever (tracing-core 0.1).
    let second = Dispatch::new(NoSubscriber::default());
    let log = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    (written, (second, tracing::subscriber::set_default(log)))
}

/// Value of a series on the metrics page; `None` if it is not there.
fn value(page: &PrometheusHandle, series: &str) -> Option<f64> {
    let page = page.render();
    let mut lines = page.lines();
    lines.find_map(|line| line.strip_prefix(series)?.parse().ok())
}

async fn new_ids_over_the_limit_are_counted_and_warned_of_once(one: TestDatabase, _: TestDatabase) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let (written, _log) = log_of_this_thread();
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let worker = env.worker_with(WorkerOptions {
        growth: GrowthLimits {
            ids_per_hour_max: Some(50),
            ..GrowthLimits::default()
        },
        ..options(20)
    });
    assert_eq!(value(&page, DROPPED), Some(0.0), "increase() needs it");
    // In the first hour as many as the limit allows, in the second ten more.
    for (hour, ids) in [(0, 50), (1, 60)] {
        let updates: Vec<_> = (0..ids)
            .map(|number| {
                let mut update = of_new_id(env.project_id, hour * 1_000 + number, "{}");
                update.position.created_at = Micros(NOW + hour * HOUR + number);
                update
            })
            .collect();
        env.store(&updates);
    }
    pass(&env, 2 * HOUR).await;
    finish(&worker).await;
    assert_eq!(value(&page, DROPPED), Some(10.0));
    let new_ids = value(&page, "millrace_person_new_ids_total ");
    assert_eq!(new_ids, Some(100.0));
    let log = written.text();
    let warnings: Vec<_> = log
        .lines()
        .filter(|line| line.contains("new_distinct_ids_per_hour_max"))
        .collect();
    let [warning] = warnings.as_slice() else {
        panic!("{log}")
    };
    let project = format!("project_id={}", env.project_id.0);
    assert!(
        warning.contains("WARN") && warning.contains(&project),
        "{warning}"
    );
}

async fn an_update_that_is_too_large_is_logged_with_its_event_and_largest_property(
    one: TestDatabase,
    _: TestDatabase,
) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let (written, _log) = log_of_this_thread();
    let env = TestEnv::open(&one).await;
    register(&env).await;
    let text = "x".repeat(700 << 10);
    let set = format!(r#"{{"small":1,"the large one":"{text}"}}"#);
    let update = of_new_id(env.project_id, 1, &set);
    env.store(std::slice::from_ref(&update));
    pass(&env, 2).await;
    finish(&env.worker(20)).await;
    assert_eq!(value(&page, TOO_LARGE), Some(1.0));
    let log = written.text();
    let line = log.lines().find(|line| line.contains("too_large"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    for part in [
        "WARN".to_owned(),
        format!("project_id={} uuid={} ", env.project_id.0, update.uuid),
        "bytes=716981 bytes_max=655360 ".to_owned(),
        r#"property="the large one" property_bytes=716895"#.to_owned(),
    ] {
        assert!(line.contains(&part), "{part}: {line}");
    }
}

async fn the_size_of_the_catalog_is_measured_by_every_worker(one: TestDatabase, _: TestDatabase) {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    let _metrics = metrics::set_default_local_recorder(&recorder);
    let env = TestEnv::open(&one).await;
    register(&env).await;
    // Measuring may take that long.
    let worker = env.worker_with(WorkerOptions {
        lapse_after: Duration::from_secs(60),
        ..options(20)
    });
    worker.run(std::future::ready(())).await.unwrap();
    let bytes = value(&page, "millrace_catalog_bytes ");
    assert!(bytes > Some(4_096.0), "{bytes:?}");
}
