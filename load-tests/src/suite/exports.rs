//! Cost of an export, compared with the SELECT that it consists of; and its cost for concurrent
//! load.

use super::bench::Bench;
use super::engine::Engine;
use super::exporter::{Exported, Exporter};
use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::load::BATCHES;
use super::render::ratio;
use super::rounds::Rounds;
use super::server::{Contestant, Server, ServerOptions};
use super::store::Store;
use crate::digits::grouped;
use crate::keys::Keys;
use crate::plan::{Mode, Plan};
use crate::report::mebibytes;
use crate::run::run_observed;
use crate::stop::Stop;
use anyhow::{Context, Result, anyhow, ensure};
use std::time::{Duration, Instant};

/// Rate of the load beside an export; well below the capacity of one core.
const EVENTS_PER_SECOND: f64 = 100_000.0;
/// Number of rows that one statement inserts.
const FILL_ROWS: u64 = 500_000;
/// Number of distinct events in the table.
const SEED_ROWS: u64 = 100_000;

/// Measures exports and SELECTs in turn, then a load with and without a concurrent export.
///
/// # Errors
/// Something does not start, a run fails, or an export lacks rows.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let cpus = bench.cpus.split_with_engine(1);
    let engine = Engine::start(bench, &cpus.engine)?;
    let generator: Vec<_> = cpus.generator.iter().map(usize::to_string).collect();
    let exporter = Exporter::start(bench, &engine, &generator.join(","))?;
    let options = ServerOptions {
        clickhouse: Some(engine.clickhouse()),
        catalog: Some(exporter.catalog()),
        ..ServerOptions::default()
    };
    let contestant = Contestant::Ours {
        workers: 1,
        store: Store::Disk,
    };
    let server = Server::start_with(bench, contestant, options)?;
    let load = plan(bench, &server, &exporter, &cpus.generator);
    let rows = bench.effort.exported_rows;
    fill(bench, &engine, &server, &load, rows)?;
    let mut rounds = Rounds::new();
    for number in 1..=bench.effort.export_rounds {
        let (select, export) = export(bench, &engine, &exporter, rows)?;
        let [p99_alone_ms, p99_beside_ms] = loads(bench, &exporter, &load)?;
        bench.say(&format!(
            "  round {number}: p99 of a load {p99_alone_ms:.3} ms alone, {p99_beside_ms:.3} ms \
             beside an export"
        ));
        rounds.push(ExportRound {
            select_rows_per_second: rows as f64 / select.as_secs_f64(),
            export_rows_per_second: rows as f64 / export.took.as_secs_f64(),
            rss_mebibytes_max: mebibytes(export.rss_bytes_max),
            p99_alone_ms,
            p99_beside_ms,
        });
    }
    Ok(findings(&rounds, rows))
}

fn plan(bench: &Bench<'_>, server: &Server, exporter: &Exporter, pin: &[usize]) -> Plan {
    let mut plan = bench.plan(server, 1);
    BATCHES.apply(&mut plan);
    plan.keys = Keys::new(vec![exporter.key.clone()]);
    plan.pin = pin.to_vec();
    plan.threads = pin.len();
    plan.mode = Mode::Open {
        events_per_second: EVENTS_PER_SECOND,
    };
    plan
}

/// Fills the table with yesterday's events: copies, under new ids, of some events sent the usual
/// way.
fn fill(
    bench: &mut Bench<'_>,
    engine: &Engine,
    server: &Server,
    load: &Plan,
    rows: u64,
) -> Result<()> {
    let summary = bench.run(load)?;
    server.wait_until_shipped(bench, summary.run.acknowledged_events)?;
    let seed = "CREATE TABLE millrace.seed ENGINE = Memory AS \
                SELECT event, properties, team_id, distinct_id FROM millrace.events";
    engine.execute(&format!("{seed} LIMIT {SEED_ROWS}"))?;
    engine.empty()?;
    let seeds = engine.rows("seed")?.max(1);
    let mut filled = 0;
    while filled < rows {
        bench.check()?;
        let more = FILL_ROWS.min(rows - filled);
        engine.execute(&format!(
            "INSERT INTO millrace.events SELECT generateUUIDv4() AS uuid, event, properties, \
             toStartOfDay(now64(6)) - toIntervalSecond(1 + rand() % 86000) AS timestamp, \
             team_id, distinct_id, timestamp AS created_at, false AS historical_migration \
             FROM millrace.seed CROSS JOIN numbers({}) AS copies LIMIT {more} \
             SETTINGS max_partitions_per_insert_block = 0",
            more.div_ceil(seeds)
        ))?;
        filled += more;
    }
    bench.say(&format!("  {} rows to export", grouped(filled as f64)));
    // Merges would slow down whichever runs first.
    engine.execute("OPTIMIZE TABLE millrace.events")?;
    engine.execute("SYSTEM STOP MERGES millrace.events")
}

struct ExportRound {
    select_rows_per_second: f64,
    export_rows_per_second: f64,
    rss_mebibytes_max: f64,
    p99_alone_ms: f64,
    p99_beside_ms: f64,
}

/// Runs a SELECT and an export of the same rows.
///
/// ClickHouse's default row groups of a million rows would need more memory than the engine may
/// use, so the SELECT uses the export's size of row groups.
fn export(
    bench: &Bench<'_>,
    engine: &Engine,
    exporter: &Exporter,
    rows: u64,
) -> Result<(Duration, Exported)> {
    let began = Instant::now();
    engine.drain(
        "SELECT * FROM millrace.events WHERE timestamp < toStartOfDay(now64(6)) \
         FORMAT Parquet SETTINGS output_format_parquet_compression_method = 'zstd', \
         output_format_parquet_row_group_size = 100000, \
         output_format_parquet_row_group_size_bytes = 67108864",
    )?;
    let select = began.elapsed();
    let exported = exporter.export(bench)?;
    ensure!(
        exported.rows == rows,
        "{} of {rows} rows were exported",
        exported.rows
    );
    Ok((select, exported))
}

/// Runs a load alone, then beside an export; returns the p99 of both in milliseconds.
fn loads(bench: &Bench<'_>, exporter: &Exporter, plan: &Plan) -> Result<[f64; 2]> {
    let alone = bench.run(plan)?;
    let mut long = plan.clone();
    long.duration = Duration::from_secs(3_600);
    let stop = Stop::default();
    let beside = std::thread::scope(|scope| {
        let load = scope.spawn(|| run_observed(&long, &stop, &mut |_| {}));
        let exported = exporter.export(bench);
        stop.ask();
        let load = load.join().map_err(|_| anyhow!("the load panicked"))?;
        exported.and(load)
    })
    .context("a load beside an export")?;
    Ok([&alone, &beside].map(|run| run.latency.p99_us / 1e3))
}

fn findings(rounds: &Rounds<ExportRound>, rows: u64) -> Findings {
    let export = rounds.median(|it| it.export_rows_per_second);
    let of_select = rounds.median(|it| it.export_rows_per_second / it.select_rows_per_second);
    let rss_mebibytes = rounds.highest(|it| it.rss_mebibytes_max);
    let of_alone = rounds.median(|it| it.p99_beside_ms / it.p99_alone_ms);
    let mut findings = Findings::with_columns(&["", "Export", "SELECT alone", "Export ÷ SELECT"]);
    findings.row([
        "rows/s as Parquet, zstd".into(),
        Cell::Grouped(export),
        Cell::Grouped(rounds.median(|it| it.select_rows_per_second)),
        Cell::Ratio(of_select),
    ]);
    findings.row([
        "most memory, MiB".into(),
        Cell::Decimals(rss_mebibytes, 1),
        Cell::Absent,
        Cell::Absent,
    ]);
    for (subject, unit, value) in [
        ("export ÷ select", Unit::Ratio, of_select),
        ("export", Unit::RowsPerSecond, export),
        ("export", Unit::Mebibytes, rss_mebibytes),
        ("p99 beside ÷ alone", Unit::Ratio, of_alone),
    ] {
        findings.figure(FigureName::new(subject, unit), value);
    }
    findings.note(format!(
        "{} events of 998 B in one file. A load of {} events/s meanwhile, on disk: p99 {:.3} ms \
         alone, {:.3} ms beside exports, {} times.",
        grouped(rows as f64),
        grouped(EVENTS_PER_SECOND),
        rounds.median(|it| it.p99_alone_ms),
        rounds.median(|it| it.p99_beside_ms),
        ratio(of_alone),
    ));
    findings
}
