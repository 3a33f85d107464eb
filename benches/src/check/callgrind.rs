//! Runs a case under valgrind and reads what it counted.

use super::Case;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// What a case costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Instructions of one round, in user mode, of all threads.
    pub instructions: u64,
}

/// Counts a case. `program` is run with the case's name and a number of rounds and must do just
/// that.
///
/// # Errors
/// There is no valgrind, or the case failed under it.
pub fn count(program: &Path, case: &Case) -> Result<Count> {
    let few = total(program, case, 1)?;
    let many = total(program, case, 1 + case.rounds)?;
    let rounds = u64::from(case.rounds).max(1);
    Ok(Count {
        instructions: many.saturating_sub(few) / rounds,
    })
}

fn total(program: &Path, case: &Case, rounds: u32) -> Result<u64> {
    let dir = tempfile::tempdir().context("cannot make a folder for the counts")?;
    let counts = dir.path().join("callgrind.out");
    let run = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", counts.display()))
        .arg(program)
        .args(["--run", &case.name, "--rounds", &rounds.to_string()])
        .output()
        .context("cannot run valgrind; `make bench-check` installs it")?;
    ensure!(
        run.status.success(),
        "{} under valgrind: {}\n{}",
        case.name,
        run.status,
        String::from_utf8_lossy(&run.stderr)
    );
    let text = std::fs::read(&counts).context("callgrind wrote no counts")?;
    parse(&String::from_utf8_lossy(&text)).context("callgrind's file names no total")
}

/// The sum over all parts of the file: one for each dump, and `totals` closes each.
fn parse(text: &str) -> Option<u64> {
    let total = |line: &str| line.strip_prefix("totals:")?.trim().parse::<u64>().ok();
    text.lines()
        .filter_map(total)
        .reduce(|sum, part| sum + part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_a_callgrind_file_is_found() {
        let file = "# callgrind format\nversion: 1\nevents: Ir\nsummary: 9\n\nfn=(1) main\n\
                    16 400\ncalls=1 0\ntotals: 1234567\n";
        for (text, total) in [
            (file, Some(1_234_567)),
            ("totals: 5\npart: 2\ntotals: 7\n", Some(12)),
            ("events: Ir\n", None),
            ("totals: many\n", None),
        ] {
            assert_eq!(parse(text), total, "{text}");
        }
    }
}
