//! Opening of the results page: five sentences and one picture, of the log on disk, one core and
//! the default settings.

use super::dots::{self, Dot};
use super::peers::{PeerResults, PeerRound, PeerRuns};
use crate::digits::{counted, grouped};
use anyhow::Result;

/// Load that the opening is about; the first of the results if it was not run.
const LOAD: &str = "batches";

/// Sentences and picture.
#[derive(Clone, Debug)]
pub struct Opening {
    /// The five sentences, in their order.
    pub sentences: [String; 5],
    /// Title of the picture.
    pub title: String,
    /// Picture as SVG.
    pub picture: String,
}

impl Opening {
    /// Opening of results; none if Millrace or all others were left out.
    ///
    /// # Errors
    /// The picture cannot be drawn.
    pub fn of(results: &PeerResults) -> Result<Option<Self>> {
        let loads = || results.loads.iter();
        let load = loads()
            .find(|it| it.name == LOAD)
            .or_else(|| loads().next());
        let Some((load, ours)) = load.zip(results.ours()) else {
            return Ok(None);
        };
        let Some(other) = results.fastest_other(&load.name) else {
            return Ok(None);
        };
        let title = format!("Acknowledged events per second of one core, {}", load.title);
        let dots = results.peers.iter().map(|peer| Dot {
            name: peer.label.clone(),
            value: peer.rate(&load.name),
        });
        let dots: Vec<_> = dots.collect();
        Ok(Some(Self {
            sentences: sentences(
                results,
                (ours, other),
                (load.name.as_str(), load.title.as_str()),
            ),
            picture: dots::svg(&title, "events/s, logarithmic", &dots)?,
            title,
        }))
    }
}

fn sentences(
    results: &PeerResults,
    (ours, other): (&PeerRuns, &PeerRuns),
    (load, title): (&str, &str),
) -> [String; 5] {
    let cpu = |peer: &PeerRuns| peer.interval(load, PeerRound::cpu_us).median;
    let p99 = |peer: &PeerRuns| peer.interval(load, |round| round.p99_ms).median;
    [
        format!(
            "On one core ({}), with its log on disk and its default settings, Millrace takes {} \
             events a second in requests of {title}.",
            results.machine.cpu,
            grouped(ours.rate(load).median),
        ),
        format!(
            "That is {:.1} times the {} of the fastest other service that stores events, {}, on \
             the same machine in the same run.",
            other.behind(ours, load),
            grouped(other.rate(load).median),
            other.label,
        ),
        format!(
            "An event costs {:.2} µs of CPU time until it can be queried, ClickHouse included, \
             instead of {:.2}.",
            cpu(ours),
            cpu(other),
        ),
        format!(
            "At half of its highest rate Millrace answers 99 of 100 requests within {:.1} ms; the \
             other takes {:.1} at half of its own.",
            p99(ours),
            p99(other),
        ),
        loss(results, ours),
    ]
}

/// Sentence about acknowledged events that were lost.
fn loss(results: &PeerResults, ours: &PeerRuns) -> String {
    let killed = ours.killed();
    let times = counted(ours.kills.len() as u64, "kill");
    let others = results.peers.iter().filter(|it| !it.is_ours());
    let losing = others.filter(|it| it.killed().lost_events > 0);
    let losing: Vec<_> = losing.map(lost_share).collect();
    let rest = if losing.is_empty() {
        "no other lost any".to_owned()
    } else {
        losing.join(", ")
    };
    format!(
        "After {times} of all processes by SIGKILL, Millrace lacked {} of {} acknowledged events; \
         {rest}.",
        grouped(killed.lost_events as f64),
        grouped(killed.acknowledged_events as f64),
    )
}

fn lost_share(peer: &PeerRuns) -> String {
    let killed = peer.killed();
    let share = 100.0 * killed.lost_events as f64 / killed.acknowledged_events as f64;
    format!("{} lost {share:.1} %", peer.label)
}

#[cfg(test)]
mod tests {
    use super::super::peers::tests::results;
    use super::*;

    #[test]
    fn five_sentences_compare_with_the_fastest_other() {
        let opening = Opening::of(&results()).unwrap().unwrap();
        let text = opening.sentences.join("\n");
        for part in [
            "On one core (EPYC)",
            "takes 300 events a second in requests of 250 events of 998 B.",
            "10.0 times the 30 of the fastest other service that stores events, A buffer",
            "costs 3.00 µs",
            "lacked 0 of 100 acknowledged events; A buffer lost 40.0 %.",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        assert!(opening.picture.contains("A buffer"));
    }

    #[test]
    fn results_without_millrace_open_with_nothing() {
        let mut results = results();
        results.peers.remove(0);
        assert!(Opening::of(&results).unwrap().is_none());
    }
}
