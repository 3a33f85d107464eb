//! Command line of `millrace-load attack`.

use anyhow::{Context, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use millrace_load::attack::{Options, attack, corpus_in, task_names};
use millrace_load::{Stop, command_line};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Options of `attack`.
#[derive(Debug, Args)]
pub struct AttackArgs {
    /// Path of the server's program.
    #[arg(long, value_name = "FILE", default_value = "target/release/millrace")]
    pub server: PathBuf,
    /// Folder in which the data folder is created; by default the system's folder for temporary
    /// files.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Folder of the fuzz targets' corpora, from which bodies are made.
    #[arg(long, value_name = "DIR")]
    pub corpus: Option<PathBuf>,
    /// Length of the run in minutes, half of it calm; a minute beside many months comes on top.
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..))]
    pub minutes: u32,
    /// Run only these attacks, to find the one that does harm.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = PossibleValuesParser::new(task_names()))]
    pub only: Vec<String>,
    /// Seed of everything that is random; drawn and shown by default.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Also write the report to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Do not report single phases.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Runs the attack and reports; exit code 1 if anything is wrong or above its bound.
pub fn run(args: &AttackArgs, stop: &Stop) -> Result<ExitCode> {
    let dir = args.dir.clone().unwrap_or_else(std::env::temp_dir);
    let corpus = args.corpus.clone();
    let corpus = corpus.unwrap_or_else(|| corpus_in(Path::new("")));
    let mut options = Options::new(args.server.clone(), dir, corpus, args.minutes);
    if let Some(seed) = args.seed {
        options.seed = seed;
    }
    options.only.clone_from(&args.only);
    println!("seed {}", options.seed);
    let mut report = attack(&options, stop, &|text| {
        if !args.quiet {
            println!("{text}");
        }
    })?;
    report.command = command_line::shown(std::env::args());
    println!("{report}");
    if let Some(file) = &args.json {
        let json = serde_json::to_vec_pretty(&report).context("report")?;
        std::fs::write(file, json).with_context(|| format!("cannot write {}", file.display()))?;
    }
    let slow = report.slow();
    for bound in &slow {
        eprintln!(
            "millrace-load: {} {:.2} is more than {:.2}",
            bound.name, bound.attack, bound.max
        );
    }
    Ok(if report.is_right() && slow.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
