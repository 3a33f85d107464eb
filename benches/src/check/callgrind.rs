//! Runs a case under valgrind and reads the instruction count.

use super::Case;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Cost of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Instructions of one round, in user mode, of all threads.
    pub instructions: u64,
}

/// Counts the instructions of a case.
///
/// `program` is run with the case's name and a number of rounds, and must run just those.
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

/// Sums the totals of all dumps in a callgrind file; each dump ends with a line `totals`.
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
    fn the_totals_of_a_callgrind_file_are_summed() {
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
