//! Resident memory: idle, with many idle connections, and under full load.

use super::bench::Bench;
use super::figure::{FigureName, Unit};
use super::findings::{Cell, Findings};
use super::load::BATCHES;
use super::outcome::{Line, Plot};
use super::server::{Contestant, Server};
use crate::digits::grouped;
use crate::process::Usage;
use crate::report::mebibytes;
use crate::target::Target;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;

const CONNECTIONS: u16 = 256;
const IDLE_CONNECTIONS: usize = 10_000;

/// Measures an idle server, then one with idle connections, then another one under full load.
///
/// # Errors
/// A server does not start, a run fails, or the system has not enough descriptors.
pub fn measure(bench: &mut Bench<'_>) -> Result<Findings> {
    let mut findings = Findings::with_columns(&["Millrace, one worker", "MiB"]);
    let mut add = |label: String, subject: &str, mebibytes: f64| {
        findings.row([label.into(), Cell::Decimals(mebibytes, 1)]);
        findings.figure(FigureName::new(subject, Unit::Mebibytes), mebibytes);
    };
    let server = Server::start(bench, Contestant::OURS)?;
    let idle = resident(&server)?;
    add("idle".to_owned(), "idle", idle);
    let connections = idle_connections(&server)?;
    let held = resident(&server)? - idle;
    let count = grouped(connections.len() as f64);
    add(
        format!("{count} idle connections, on top"),
        "10 000 idle connections",
        held,
    );
    drop(connections);
    drop(server);

    let (most, line) = full_load(bench)?;
    add(
        format!("full load over {CONNECTIONS} connections, most"),
        "full load",
        most,
    );
    findings.plot = Some(Plot::linear(
        "seconds of full load",
        "MiB resident",
        vec![line],
    ));
    findings.note(
        "Idle connections have had one request answered each. A log in memory is not the \
         server's memory.",
    );
    Ok(findings)
}

fn full_load(bench: &mut Bench<'_>) -> Result<(f64, Line)> {
    let server = Server::start(bench, Contestant::OURS)?;
    let mut plan = bench.plan(&server, Contestant::OURS.cpus());
    BATCHES.apply(&mut plan);
    plan.connections = CONNECTIONS;
    let mut points = Vec::new();
    let summary = bench.run_observed(&plan, &mut |progress| {
        // A dead server shows in the summary.
        if let Ok(mebibytes) = resident(&server) {
            points.push((progress.elapsed.as_secs_f64(), mebibytes));
        }
    })?;
    let most = summary
        .server
        .map_or(f64::NAN, |load| mebibytes(load.rss_bytes_max));
    let name = format!("{CONNECTIONS} connections");
    Ok((most, Line::new(name, points)))
}

fn resident(server: &Server) -> Result<f64> {
    Ok(mebibytes(Usage::of(Some(server.pid()))?.rss_bytes))
}

/// Opens idle connections; each has got one response.
fn idle_connections(server: &Server) -> Result<Vec<TcpStream>> {
    let authority = Target::parse(&server.url)?.authority;
    let mut connections = Vec::with_capacity(IDLE_CONNECTIONS);
    for number in 0..IDLE_CONNECTIONS {
        let mut stream = TcpStream::connect(&authority)
            .with_context(|| format!("connection {number} of {IDLE_CONNECTIONS}"))?;
        write!(stream, "GET / HTTP/1.1\r\nHost: {authority}\r\n\r\n").context("request")?;
        let mut answer = [0; 1024];
        let bytes = stream.read(&mut answer).context("answer")?;
        ensure!(bytes > 0, "connection {number} was closed");
        connections.push(stream);
    }
    Ok(connections)
}
