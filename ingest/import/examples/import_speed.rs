//! Measures the speed of an import without a server: events from a generator, requests into a
//! drain.
//!
//! ```text
//! import_speed drain                          answers every request, and prints its address
//! import_speed generate EVENTS BYTES          writes EVENTS events of BYTES bytes each
//! import_speed load URL FILE STAGING [N]      imports a file (- for stdin), N requests at once
//! ```

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a tool for measuring")]

use millrace_import::chunk::ChunkLimits;
use millrace_import::load::{Load, run};
use millrace_import::plan::Plan;
use millrace_import::staging::Staging;
use millrace_import::stats::StageStats;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["drain"] => drain(),
        ["generate", events, bytes] => generate(events.parse()?, bytes.parse()?),
        ["load", url, file, staging] => load(url, file, staging, 4),
        ["load", url, file, staging, requests] => load(url, file, staging, requests.parse()?),
        _ => anyhow::bail!("say drain, generate EVENTS BYTES, or load URL FILE STAGING"),
    }
}

fn drain() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("http://{}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        std::thread::spawn(move || answer(stream).is_ok());
    }
    Ok(())
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(1 << 20, stream.try_clone()?);
    let mut writer = stream;
    let mut sink = vec![0; 1 << 20];
    loop {
        let mut left = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let line = line.trim().to_ascii_lowercase();
            if let Some(length) = line.strip_prefix("content-length:") {
                left = length.trim().parse().unwrap_or(0);
            }
            if line.is_empty() {
                break;
            }
        }
        while left > 0 {
            let wanted = sink.len().min(left);
            let read = reader.read(sink.get_mut(..wanted).unwrap_or_default())?;
            if read == 0 {
                return Ok(());
            }
            left -= read;
        }
        writer.write_all(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 15\r\n\r\n{\"status\":\"Ok\"}",
        )?;
    }
}

fn generate(events: u64, bytes: usize) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, std::io::stdout().lock());
    let properties: String = (0..20)
        .map(|index| format!(r#","property_{index}":"value {index} of it""#))
        .collect();
    for number in 0..events {
        let (day, second) = (number % 28 + 1, number % 60);
        let mut line = format!(
            r#"{{"event":"$pageview","distinct_id":"user-{}","timestamp":"2024-05-{day:02}T10:20:{second:02}.123Z","properties":{{"$current_url":"https://example.com/{number}"{properties},"pad":""#,
            number % 100_000
        );
        while line.len() + 3 < bytes {
            line.push('x');
        }
        line.push_str("\"}}");
        writeln!(out, "{line}")?;
    }
    out.flush()?;
    Ok(())
}

fn load(url: &str, file: &str, staging: &str, requests: usize) -> anyhow::Result<()> {
    let load = Load {
        url: url.to_owned(),
        project_key: "phc_speed".to_owned(),
        plan: Plan::default(),
        files: millrace_import::files::find(&[file.to_owned()])?,
        rejects: None,
        staging: Staging::open(Path::new(staging))?,
        is_restart: false,
        files_parallel: 1,
        requests_parallel: requests,
        compression: None,
        give_up_after: Duration::from_secs(10),
        limits: ChunkLimits::default(),
    };
    let stats = Arc::new(StageStats::default());
    let outcome = run(&load, &stats)?;
    let snapshot = stats.snapshot();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM"));
    println!(
        "{} events in {:.2} s: {:.0} events/s, {}; stopped: {:?}",
        snapshot.accepted,
        snapshot.seconds,
        snapshot.events_per_second,
        peak.unwrap_or_default(),
        outcome.stop
    );
    Ok(())
}
