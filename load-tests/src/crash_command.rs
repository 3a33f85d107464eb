//! Command line of `millrace-load crash`.

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use millrace_load::crash::disk::FileSystem;
use millrace_load::crash::kill::Kind;
use millrace_load::crash::options::Layout;
use millrace_load::crash::{Options, crash};
use millrace_load::{Stop, namespace};
use std::path::PathBuf;
use std::process::ExitCode;

/// Options of `crash`.
#[derive(Debug, Args)]
pub struct CrashArgs {
    /// Path of the server's program, built with --features failpoints.
    #[arg(long, value_name = "FILE", default_value = "target/debug/millrace")]
    pub server: PathBuf,
    /// Folder in which data folders are created, on the file system to be tested; by default the
    /// system's folder for temporary files.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Number of kills.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub kills: u32,
    /// Number of kills in one data folder.
    #[arg(long, value_name = "N", default_value_t = 25)]
    pub folder_kills: u32,
    /// Number of kills between two comparisons of ClickHouse with the acknowledged events.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub check_kills: u32,
    /// Run only these kinds of kills: ingest, engine, both (at random moments), part-rename (the
    /// engine, just before it renames an inserted part into place), or a fail point.
    #[arg(long, value_name = "KIND,…", value_delimiter = ',', value_parser = kind)]
    pub only: Vec<Kind>,
    /// Use only this layout: `serve` with the engine as its child, or both processes apart. By
    /// default folders take turns.
    #[arg(long, value_name = "LAYOUT", value_enum)]
    pub layout: Option<Layout>,
    /// With each kill, cut the power of the victim's disks, so that they lose unsynced data. The
    /// disks are file systems in files, mounted by loop devices. Needs root.
    #[arg(long)]
    pub power: bool,
    /// File system of those disks.
    #[arg(long, value_name = "NAME", value_enum, default_value_t = FileSystem::Ext4, requires = "power")]
    pub file_system: FileSystem,
    /// Number of folders, each with a server, at the same time.
    #[arg(short, long, value_name = "N", default_value_t = 2)]
    pub jobs: usize,
    /// Seed of kinds, moments and order of the kills; drawn and shown by default.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Events sent per second to one server.
    #[arg(long, value_name = "EVENTS/S", default_value_t = 8_000.0, value_parser = rate)]
    pub rate: f64,
    /// Share of the requests that are historical, 0 to 1.
    #[arg(long, value_name = "PART", default_value_t = 0.25, value_parser = part)]
    pub historical_share: f64,
    /// Share of the requests with one event to be rejected, 0 to 1.
    #[arg(long, value_name = "PART", default_value_t = 0.25, value_parser = part)]
    pub rejected_share: f64,
    /// Do not show the progress line, nor single kills.
    #[arg(short, long)]
    pub quiet: bool,
}

/// Runs the kills and reports; exit code 1 if anything is wrong, 2 if it could not go on.
pub fn run(args: &CrashArgs, stop: &Stop) -> Result<ExitCode> {
    if args.power && !namespace::is_own() {
        return again_in_namespace();
    }
    let bar = if args.quiet {
        ProgressBar::hidden()
    } else {
        ProgressBar::new(args.kills.into())
    };
    if let Ok(style) = ProgressStyle::with_template("[{bar:24}] {pos} of {len} kills, {elapsed}") {
        bar.set_style(style);
    }
    let options = args.options();
    println!("seed {}", options.seed);
    let report = crash(&options, stop, &|text| {
        if text.starts_with("kill ") {
            bar.inc(1);
        }
        // Without a terminal the bar swallows text printed through it.
        bar.suspend(|| {
            if !args.quiet {
                println!("{text}");
            }
        });
    });
    bar.finish_and_clear();
    let report = report?;
    println!("{report}");
    if report.kills() == 0 && report.failures.is_empty() {
        bail!("no process was killed");
    }
    for failure in &report.failures {
        eprintln!("millrace-load: {failure}");
    }
    Ok(if report.is_clean() {
        ExitCode::SUCCESS
    } else if report.wrongs.is_empty() && !report.failures.is_empty() {
        ExitCode::from(2)
    } else {
        ExitCode::FAILURE
    })
}

/// Runs this command again in a namespace, so that its mounts end with it.
fn again_in_namespace() -> Result<ExitCode> {
    let program = std::env::current_exe().context("cannot find the program's own file")?;
    let status = namespace::command(&program)
        .args(std::env::args_os().skip(1))
        .status()
        .context("cannot run setpriv")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}

impl CrashArgs {
    fn options(&self) -> Options {
        let dir = self.dir.clone().unwrap_or_else(std::env::temp_dir);
        let mut options = Options::new(self.server.clone(), dir, self.kills);
        options.folder_kills = self.folder_kills;
        options.check_kills = self.check_kills;
        options.jobs = self.jobs;
        options.power = self.power.then_some(self.file_system);
        options.events_per_second = self.rate;
        options.historical_share = self.historical_share;
        options.rejected_share = self.rejected_share;
        if !self.only.is_empty() {
            options.kinds.clone_from(&self.only);
        }
        if let Some(layout) = self.layout {
            options.layouts = vec![layout];
        }
        if let Some(seed) = self.seed {
            options.seed = seed;
        }
        options
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .parse()
        .ok()
        .filter(|rate: &f64| rate.is_normal() && *rate > 0.0);
    rate.ok_or_else(|| "give a number above 0".to_owned())
}

fn part(text: &str) -> Result<f64, String> {
    let part = text.parse().ok().filter(|part| (0.0..=1.0).contains(part));
    part.ok_or_else(|| "give a number from 0 to 1".to_owned())
}

fn kind(text: &str) -> Result<Kind, String> {
    let all = Kind::all();
    let found = all.iter().find(|kind| kind.to_string() == text).copied();
    found.ok_or_else(|| {
        let names: Vec<_> = all.iter().map(Kind::to_string).collect();
        format!("there are: {}", names.join(", "))
    })
}
