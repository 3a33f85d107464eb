//! `make bench-check`: counts instructions and compares them with `benches/instructions.toml`.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use millrace_benches::check::{
    Case, Committed, Line, PERCENT_MAX, PERCENT_MAX_BOUNDED, count, table,
};
use std::num::NonZero;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;

/// Compare the hot path's instruction counts with the committed ones.
///
/// Fails when a count is off by more than five percent. Needs valgrind.
#[derive(Debug, Parser)]
struct Args {
    /// Write the counts to the file instead of comparing.
    #[arg(long)]
    update: bool,
    /// File of the committed counts.
    #[arg(long, value_name = "FILE", default_value = "benches/instructions.toml")]
    file: PathBuf,
    /// Only run one case's work; for valgrind, perf and the like.
    #[arg(long, value_name = "CASE", value_parser = case, conflicts_with = "update")]
    run: Option<Case>,
    /// Count only cases whose name contains this text.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["update", "run"])]
    only: Option<String>,
    /// Number of times to repeat the work of `--run`.
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
        // The file may be absent or broken: it will be replaced.
        Committed::read(&args.file).unwrap_or_default()
    } else {
        Committed::read(&args.file)?
    };
    let lines = lines(&committed, args.only.as_deref())?;
    println!("{}", table(&lines));
    let mut is_good = lines.iter().all(Line::is_within_bound);
    if !is_good {
        println!(
            "\nA hostile request costs more than its bound: make its work cheaper, or refuse it earlier."
        );
    }
    if args.update {
        update(&args, &lines)?;
    } else if !lines.iter().all(Line::is_as_committed) {
        is_good = false;
        println!(
            "\nMore than {PERCENT_MAX} % off the committed count ({PERCENT_MAX_BOUNDED} % for a case with a bound). If \
             that is intended, say why in the commit and run `make bench-check UPDATE=1`."
        );
    }
    Ok(if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn lines(committed: &Committed, only: Option<&str>) -> Result<Vec<Line>> {
    let program = std::env::current_exe().context("cannot find this program's own path")?;
    let line = |case: Case| {
        Ok(Line {
            basis: case.basis()?,
            committed: committed.instructions.get(&case.name).copied(),
            counted: count(&program, &case)?.instructions,
            name: case.name,
        })
    };
    let cases: Vec<_> = Case::all()
        .filter(|case| only.is_none_or(|only| case.name.contains(only)))
        .collect();
    in_parallel(cases, line)
}

/// Does the work on as many threads as there are cores; other load does not change the counts.
fn in_parallel<T: Send, R: Send>(
    items: Vec<T>,
    work: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let items = Mutex::new(items.into_iter().enumerate());
    let one = || {
        let mut done = Vec::new();
        loop {
            let next = items.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((nth, item)) = next else {
                return Ok(done);
            };
            done.push((nth, work(item)?));
        }
    };
    let threads = available_parallelism().map_or(1, NonZero::get);
    let done: Result<Vec<_>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let joined = threads.into_iter().map(|thread| {
            let done: Result<Vec<_>> = thread.join().map_err(|_| anyhow!("a thread panicked"))?;
            done
        });
        joined.collect()
    });
    let mut done: Vec<_> = done?.into_iter().flatten().collect();
    done.sort_unstable_by_key(|(nth, _)| *nth);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

fn update(args: &Args, lines: &[Line]) -> Result<()> {
    let instructions = lines
        .iter()
        .map(|line| (line.name.clone(), line.counted))
        .collect();
    Committed { instructions }.write(&args.file)?;
    println!("\nwritten to {}", args.file.display());
    Ok(())
}

fn case(name: &str) -> Result<Case, String> {
    Case::named(name).ok_or_else(|| {
        let names: Vec<_> = Case::all().map(|case| case.name).collect();
        format!("one of {}", names.join(", "))
    })
}
