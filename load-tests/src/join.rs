//! Several runs as one: those of generators that sent to one server at the same time.
//!
//! Counts are added and so are the HdrHistograms, so that the percentiles are those of all
//! requests. Runs are aligned by the beginnings of their windows; how exactly their clocks and
//! starts agreed is up to whoever started them.

use crate::compare::differences;
use crate::hdr::{self, HdrLog};
use crate::plan::Plan;
use crate::series::{Recorder, RunTiming};
use crate::summary::{Counts, Load, Percentiles, Quantile, Summary};
use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Joins runs, in any order.
///
/// # Errors
/// There is none, one has no histograms, or they have different warm-ups or kinds of loops.
pub fn join(runs: &[Summary]) -> Result<Summary> {
    let [first, ..] = runs else {
        bail!("there is no run to join");
    };
    let logs = runs.iter().map(log).collect::<Result<Vec<_>>>()?;
    let plan = joined_plan(runs, first)?;
    let (latency, send_lag, refusal) = (
        added(&logs, hdr::LATENCY)?,
        added(&logs, hdr::SEND_LAG)?,
        added(&logs, hdr::REFUSAL)?,
    );
    let over_time = over_time(runs, &logs)?;
    let timing = RunTiming {
        warm_up: plan.warm_up,
        elapsed: runs.iter().map(elapsed).max().unwrap_or_default(),
    };
    let window = counts(runs, |run| &run.window);
    let window_seconds = runs.iter().map(|run| run.window_seconds);
    let window_seconds = window_seconds.fold(0.0, f64::max);
    let per_second = |count: f64| {
        if window_seconds > 0.0 {
            count / window_seconds
        } else {
            0.0
        }
    };
    let wire_bytes = |run: &Summary| run.wire_bytes_per_second * run.window_seconds;
    let hdr_log = HdrLog::of_run(
        logs.iter().map(|log| log.started).min().unwrap_or_default(),
        (timing, window_seconds),
        &over_time,
        [&latency, &send_lag, &refusal],
    )?;
    let ids: Vec<_> = runs.iter().map(|run| run.run_id.as_str()).collect();
    Ok(Summary {
        run_id: ids.join("+"),
        started_at: started_at(runs),
        command: String::new(),
        plan,
        run: counts(runs, |run| &run.run),
        window,
        window_seconds,
        events_per_second: per_second(window.acknowledged_events as f64),
        requests_per_second: per_second(window.acknowledged_requests as f64),
        wire_bytes_per_second: per_second(runs.iter().map(wire_bytes).sum()),
        latency: Percentiles::of(&latency),
        latency_distribution: Quantile::all(&latency),
        send_lag: Percentiles::of(&send_lag),
        refusal: Percentiles::of(&refusal),
        failures: failures(runs),
        first_failure: runs.iter().find_map(|run| run.first_failure.clone()),
        generator: generators(runs, window_seconds, window.acknowledged_events),
        server: server(runs, window_seconds, window.acknowledged_events),
        series: over_time.series(timing),
        // The generators' machines were not read at the same moments.
        resources: Vec::new(),
        hdr_log: hdr_log.to_string(),
    })
}

/// Differences of the runs that are not added.
#[must_use]
pub fn notes(runs: &[Summary]) -> Vec<String> {
    let [first, others @ ..] = runs else {
        return Vec::new();
    };
    let added = ["mode:", "connections:", "threads:"];
    let differences = others.iter().flat_map(|other| differences(first, other));
    let kept = differences.filter(|text| !added.iter().any(|start| text.starts_with(start)));
    kept.map(|difference| format!("the runs differ in {difference}"))
        .collect()
}

fn log(run: &Summary) -> Result<HdrLog> {
    ensure!(
        !run.hdr_log.is_empty(),
        "run {} has no histograms: it was made before results had them",
        run.run_id
    );
    HdrLog::parse(&run.hdr_log).with_context(|| format!("histograms of run {}", run.run_id))
}

/// Sum of the histograms with a tag.
fn added(logs: &[HdrLog], tag: &str) -> Result<Histogram<u64>> {
    let mut sum = crate::worker_stats::histogram();
    for log in logs {
        sum.add(log.tagged(tag)?)
            .with_context(|| format!("{tag} has values of over ten minutes"))?;
    }
    Ok(sum)
}

fn over_time(runs: &[Summary], logs: &[HdrLog]) -> Result<Recorder> {
    let mut sum = Recorder::default();
    for (run, log) in runs.iter().zip(logs) {
        let latencies = log.seconds().map(hdr::LogLine::histogram);
        let latencies = latencies.collect::<Result<Vec<_>>>()?;
        let interval = run.series.interval_seconds;
        ensure!(
            latencies.len() == run.series.points.len() && interval.is_power_of_two(),
            "run {} has other histograms than points in time",
            run.run_id
        );
        sum.add(&Recorder::restored(&run.series, &latencies));
    }
    Ok(sum)
}

/// Time from the first due request of a run to its last response.
fn elapsed(run: &Summary) -> Duration {
    let last = run.series.points.last();
    let end = last.map_or(0.0, |point| point.at_seconds + point.seconds);
    let elapsed = Duration::try_from_secs_f64(end + run.plan.warm_up.as_secs_f64());
    elapsed.unwrap_or_default()
}

/// Plan of the first run, with the connections, threads and rates of all.
fn joined_plan(runs: &[Summary], first: &Summary) -> Result<Plan> {
    let mut plan = first.plan.clone();
    for run in runs.iter().skip(1) {
        ensure!(
            run.plan.warm_up == plan.warm_up,
            "runs {} and {} have different warm-ups",
            first.run_id,
            run.run_id
        );
        plan.mode = plan.mode.plus(&run.plan.mode).with_context(|| {
            format!(
                "runs {} and {} cannot be added: {} and {}",
                first.run_id, run.run_id, first.plan.mode, run.plan.mode
            )
        })?;
        plan.connections = plan.connections.saturating_add(run.plan.connections);
        plan.threads = plan.threads.saturating_add(run.plan.threads);
        plan.duration = plan.duration.max(run.plan.duration);
        let requests = plan.requests_max.zip(run.plan.requests_max);
        plan.requests_max = requests.map(|(one, other)| one.saturating_add(other));
    }
    Ok(plan)
}

fn counts(runs: &[Summary], get: fn(&Summary) -> &Counts) -> Counts {
    let mut sum = Counts::default();
    for counts in runs.iter().map(get) {
        sum.acknowledged_requests += counts.acknowledged_requests;
        sum.acknowledged_events += counts.acknowledged_events;
        sum.failed_requests += counts.failed_requests;
        sum.unsent_requests += counts.unsent_requests;
    }
    sum
}

fn started_at(runs: &[Summary]) -> String {
    let started = runs.iter().map(|run| run.started_at.as_str());
    started.min().unwrap_or_default().to_owned()
}

fn failures(runs: &[Summary]) -> BTreeMap<String, u64> {
    let mut sum = BTreeMap::new();
    for (reason, count) in runs.iter().flat_map(|run| &run.failures) {
        *sum.entry(reason.clone()).or_default() += count;
    }
    sum
}

/// Load of all generators together.
fn generators(runs: &[Summary], window_seconds: f64, events: u64) -> Load {
    let loads = || runs.iter().map(|run| &run.generator);
    let rss = (
        loads().map(|load| load.rss_bytes).sum(),
        loads().map(|load| load.rss_bytes_max).sum(),
    );
    let cpu_seconds = loads().map(|load| load.cpu_seconds).sum();
    Load::new(cpu_seconds, window_seconds, events, rss)
}

/// Load of the server by the generator beside it, with the events of all.
fn server(runs: &[Summary], window_seconds: f64, events: u64) -> Option<Load> {
    let server = runs.iter().find_map(|run| run.server)?;
    let rss = (server.rss_bytes, server.rss_bytes_max);
    Some(Load::new(server.cpu_seconds, window_seconds, events, rss))
}
