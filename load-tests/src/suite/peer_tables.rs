//! Tables of the peers: their figures under each load, and what their acknowledgements are worth.

use super::findings::{Cell, Findings};
use super::outcome::{EarlierMeasurement, Outcome};
use super::peers::{PeerLoad, PeerResults, PeerRound, PeerRuns};
use super::render;
use crate::digits::{counted, grouped};

/// Tables in the order of the page.
#[must_use]
pub fn outcomes(results: &PeerResults) -> Vec<Outcome> {
    let loads = results.loads.iter();
    let mut outcomes: Vec<_> = loads.map(|load| under_load(results, load)).collect();
    outcomes.push(acknowledgements(results));
    for outcome in &mut outcomes {
        outcome.origin = Some(EarlierMeasurement {
            commit: results.machine.commit.clone(),
            date: results.machine.date.clone(),
        });
    }
    outcomes
}

fn under_load(results: &PeerResults, load: &PeerLoad) -> Outcome {
    let mut findings = Findings::with_columns(&[
        "Peer",
        "events/s of a CPU, closed loop",
        "queryable/s",
        "CPU µs until queryable",
        "of it ClickHouse",
        "p99 ms at half the rate",
        "requests refused",
        "Millrace ÷ this, median of rounds",
    ]);
    for peer in &results.peers {
        findings.row(row(results, peer, &load.name));
    }
    findings.note(format!(
        "Requests of {} over {}; log and tables on disk, all settings at their defaults. The \
         service has one CPU; ClickHouse has another one, which it shares with the generator where \
         there are two. ClickHouse as a peer has both.",
        load.title,
        counted(load.connections.into(), "connection")
    ));
    let name = format!("peers-{}", load.name);
    render::outcome(&name, &format!("Beside peers: {}", load.title), findings)
}

fn row(results: &PeerResults, peer: &PeerRuns, load: &str) -> [Cell; 8] {
    let queryable = |round: &PeerRound| round.queryable_per_second.unwrap_or(f64::NAN);
    let micros = |value: f64| format!("{value:.2}");
    let engine = peer.interval(load, |round| round.engine_cpu_us);
    let refused = peer.rounds.iter().filter(|round| round.load == load);
    let refused: u64 = refused.map(|round| round.failed_requests).sum();
    let ratio = results
        .ours()
        .map_or(f64::NAN, |ours| peer.behind(ours, load));
    [
        peer.label.clone().into(),
        peer.rate(load).text(grouped).into(),
        peer.interval(load, queryable).text(grouped).into(),
        peer.interval(load, PeerRound::cpu_us).text(micros).into(),
        Cell::Decimals(engine.median, 2),
        peer.interval(load, |round| round.p99_ms)
            .text(micros)
            .into(),
        Cell::Grouped(refused as f64),
        Cell::Ratio(ratio),
    ]
}

fn acknowledgements(results: &PeerResults) -> Outcome {
    let mut findings = Findings::with_columns(&[
        "Peer",
        "acknowledges",
        "kills",
        "acknowledged",
        "lost",
        "stored twice",
        "versions",
    ]);
    for peer in &results.peers {
        let killed = peer.killed();
        let count = |value: u64| {
            if peer.kills.is_empty() {
                Cell::Absent
            } else {
                Cell::Grouped(value as f64)
            }
        };
        findings.row([
            peer.label.clone().into(),
            peer.acknowledges.clone().into(),
            count(peer.kills.len() as u64),
            count(killed.acknowledged_events),
            count(killed.lost_events),
            count(killed.doubled_events),
            peer.version.clone().into(),
        ]);
    }
    findings.note(
        "All processes of a peer, ClickHouse included, are killed by SIGKILL while numbered events \
         arrive, and started again. The machine goes on: what a process had given to the kernel \
         survives, which it does not in a power cut.",
    );
    for absent in &results.absent {
        findings.note(format!(
            "Not run here: {}; {}. Published figures: {}.",
            absent.label, absent.reason, absent.published
        ));
    }
    findings.note(format!("Command: `{}`.", results.command));
    render::outcome("peers-kills", "What an acknowledgement is worth", findings)
}

#[cfg(test)]
mod tests {
    use super::super::peers::tests::results;
    use super::*;

    #[test]
    fn peers_are_rows_with_medians_intervals_and_ratios() {
        let outcomes = outcomes(&results());
        let names: Vec<_> = outcomes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["peers-batches", "peers-kills"]);
        let buffer = &outcomes[0].rows[1];
        let expected = [
            "A buffer",
            "30 (20 to 60)",
            "15 (10 to 30)",
            "3.00",
            "2.00",
            "3.50",
            "0",
            "10.00",
        ];
        assert_eq!(*buffer, expected);
        assert_eq!(outcomes[1].rows[1][4], "40");
        let notes = outcomes[1].notes.join("\n");
        assert!(notes.contains("Vector; no program"), "{notes}");
    }

    #[test]
    fn every_column_has_a_legend() {
        for outcome in outcomes(&results()) {
            for column in outcome.columns {
                assert!(super::super::legend::of(&column).is_some(), "{column}");
            }
        }
    }
}
