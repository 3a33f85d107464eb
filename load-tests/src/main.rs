//! `millrace-load`: the command line of the load generator.
#![forbid(unsafe_code)]

mod attack_command;
mod cli;
mod commands;
mod crash_command;
mod finish;
mod progress_line;
mod proxy_command;
mod suite_command;

use clap::Parser;
use cli::{Cli, Command};
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = match cli.command {
        None => commands::run(&cli.run),
        Some(Command::Run(args)) => commands::run(&args),
        Some(Command::Verify(args)) => commands::verify(&args),
        Some(Command::MaxRate(args)) => commands::max_rate(&args),
        Some(Command::Compare(args)) => commands::compare(&args),
        Some(Command::Join(args)) => commands::join(&args),
        Some(Command::DrainServer(args)) => commands::drain_server(&args),
        Some(Command::Proxy(args)) => commands::proxy(&args),
        Some(Command::Suite(args)) => commands::suite(args),
        Some(Command::Page(args)) => commands::page(&args),
        Some(Command::Crash(args)) => commands::crash(&args),
        Some(Command::Attack(args)) => commands::attack(&args),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("millrace-load: {error:#}");
        ExitCode::from(2)
    })
}
