//! `make bench-check`: counts instructions and compares them with `benches/instructions.toml`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result};
use clap::Parser;
use millrace_benches::check::{CASES, Case, Committed, Line, PERCENT_MAX, count, table};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare the hot path's instruction counts with the committed ones.
///
/// Fails when one is off by more than five percent. Needs valgrind.
#[derive(Debug, Parser)]
struct Args {
    /// Write the counts to the file instead of comparing.
    #[arg(long)]
    update: bool,
    /// The committed counts.
    #[arg(long, value_name = "FILE", default_value = "benches/instructions.toml")]
    file: PathBuf,
    /// Only do a case's work; for valgrind, perf and the like.
    #[arg(long, value_name = "CASE", value_parser = case, conflicts_with = "update")]
    run: Option<Case>,
    /// Rounds of that work.
    #[arg(long, default_value_t = 100, requires = "run")]
    rounds: u32,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(case) = args.run {
        case.run(args.rounds)?;
        return Ok(ExitCode::SUCCESS);
    }
    let committed = if args.update {
        // The file may be absent or broken: it is replaced.
        Committed::read(&args.file).unwrap_or_default()
    } else {
        Committed::read(&args.file)?
    };
    let lines = lines(&committed)?;
    println!("{}", table(&lines));
    if args.update {
        update(&args, &lines)?;
        return Ok(ExitCode::SUCCESS);
    }
    if lines.iter().all(Line::is_kept) {
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "\nMore than {PERCENT_MAX} % off what is committed. If that is meant, say why in the commit \
         and run `make bench-check UPDATE=1`."
    );
    Ok(ExitCode::FAILURE)
}

fn lines(committed: &Committed) -> Result<Vec<Line>> {
    let program = std::env::current_exe().context("where is this program?")?;
    let line = |case: Case| {
        Ok(Line {
            name: case.name,
            events: case.events,
            committed: committed.instructions.get(case.name).copied(),
            counted: count(&program, case)?.instructions,
        })
    };
    CASES.into_iter().map(line).collect()
}

fn update(args: &Args, lines: &[Line]) -> Result<()> {
    let instructions = lines
        .iter()
        .map(|line| (line.name.to_owned(), line.counted))
        .collect();
    Committed { instructions }.write(&args.file)?;
    println!("\nwritten to {}", args.file.display());
    Ok(())
}

fn case(name: &str) -> Result<Case, String> {
    Case::named(name).ok_or_else(|| {
        let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
        format!("one of {}", names.join(", "))
    })
}
