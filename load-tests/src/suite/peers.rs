//! Results of peers: services of others that took the same events on the same machine.
//!
//! `benches/peers/run.sh` measures them, and Millrace in turn with them, and writes `peers.json`
//! beside `suite.json`. Its rounds are kept, so that medians and intervals are made here.

use super::interval::{Interval, median};
use super::machine::Machine;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::Path;

/// Name of Millrace among the peers.
const OURS: &str = "millrace";

/// Results of a run of all peers.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PeerResults {
    /// Machine, commit and date.
    pub machine: Machine,
    /// Command line of the run.
    pub command: String,
    /// True for a short run.
    pub quick: bool,
    /// Loads, in the order of the page.
    pub loads: Vec<PeerLoad>,
    /// Peers that were measured, in the order of the page; Millrace is one of them.
    pub peers: Vec<PeerRuns>,
    /// Peers that could not be run.
    pub absent: Vec<AbsentPeer>,
}

/// A load that all peers got.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PeerLoad {
    /// Name of the load.
    pub name: String,
    /// Events of a request, in words.
    pub title: String,
    /// Connections of the load.
    pub connections: u32,
}

/// A peer with all its rounds.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PeerRuns {
    /// Name of the peer, as the driver knows it.
    pub name: String,
    /// Name of the peer on the page.
    pub label: String,
    /// Moment of its acknowledgement.
    pub acknowledges: String,
    /// True if it stores events.
    pub stores: bool,
    /// Versions of its programs.
    pub version: String,
    /// Rounds of all loads.
    pub rounds: Vec<PeerRound>,
    /// Kills.
    pub kills: Vec<PeerKill>,
}

/// A round of a peer under a load.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct PeerRound {
    /// Name of the load.
    pub load: String,
    /// Acknowledged events per second.
    pub events_per_second: f64,
    /// Rows that could be queried per second; none if the peer stores nothing.
    pub queryable_per_second: Option<f64>,
    /// Requests without acknowledgement.
    pub failed_requests: u64,
    /// CPU time of the service per event in microseconds.
    pub service_cpu_us: f64,
    /// CPU time of ClickHouse per event in microseconds.
    pub engine_cpu_us: f64,
    /// p99 of the latency in milliseconds, at half of the rate.
    pub p99_ms: f64,
}

/// A kill of all processes of a peer.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct PeerKill {
    /// Events that had been acknowledged.
    pub acknowledged_events: u64,
    /// Acknowledged events that are not stored.
    pub lost_events: u64,
    /// Rows beyond one for an event.
    pub doubled_events: u64,
}

/// A peer that could not be run on the machine.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct AbsentPeer {
    /// Name of the peer on the page.
    pub label: String,
    /// Reason why it was not run.
    pub reason: String,
    /// Published figures with their source.
    pub published: String,
}

impl PeerResults {
    /// Reads the results of a folder; none if there are none, or only those of a short run.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(out: &Path) -> Result<Option<Self>> {
        let path = out.join("peers.json");
        let text = match std::fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let results: Self = serde_json::from_slice(&text)
            .with_context(|| format!("{} has no results of peers; remove it", path.display()))?;
        Ok(Some(results).filter(|it| !it.quick))
    }

    /// Millrace among the peers.
    #[must_use]
    pub fn ours(&self) -> Option<&PeerRuns> {
        self.peers.iter().find(|peer| peer.is_ours())
    }

    /// Peer that stores events and has the highest rate under a load, Millrace left out.
    #[must_use]
    pub fn fastest_other(&self, load: &str) -> Option<&PeerRuns> {
        let others = self.peers.iter().filter(|it| it.stores && !it.is_ours());
        let rated = others.map(|peer| (peer, peer.rate(load).median));
        let rated = rated.filter(|(_, rate)| rate.is_finite());
        let fastest = rated.max_by(|(_, a), (_, b)| a.total_cmp(b));
        fastest.map(|(peer, _)| peer)
    }
}

impl PeerRuns {
    /// Returns true for Millrace.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.name == OURS
    }

    /// Values of the rounds of a load, in their order.
    #[must_use]
    pub fn values(&self, load: &str, of: impl Fn(&PeerRound) -> f64) -> Vec<f64> {
        let rounds = self.rounds.iter().filter(|it| it.load == load);
        rounds.map(of).filter(|value| value.is_finite()).collect()
    }

    /// Interval of the rounds of a load.
    #[must_use]
    pub fn interval(&self, load: &str, of: impl Fn(&PeerRound) -> f64) -> Interval {
        Interval::of(&self.values(load, of))
    }

    /// Interval of the acknowledged events per second.
    #[must_use]
    pub fn rate(&self, load: &str) -> Interval {
        self.interval(load, |round| round.events_per_second)
    }

    /// Median of the quotients of our rate and this one, round by round; `NaN` without any.
    #[must_use]
    pub fn behind(&self, ours: &Self, load: &str) -> f64 {
        let rate = |round: &PeerRound| round.events_per_second;
        let (ours, theirs) = (ours.values(load, rate), self.values(load, rate));
        let ratios: Vec<_> = ours
            .iter()
            .zip(&theirs)
            .map(|(own, other)| own / other)
            .collect();
        median(&ratios)
    }

    /// Counts of all kills together.
    #[must_use]
    pub fn killed(&self) -> PeerKill {
        let add = |sum: PeerKill, kill: &PeerKill| PeerKill {
            acknowledged_events: sum.acknowledged_events + kill.acknowledged_events,
            lost_events: sum.lost_events + kill.lost_events,
            doubled_events: sum.doubled_events + kill.doubled_events,
        };
        self.kills.iter().fold(PeerKill::default(), add)
    }
}

impl PeerRound {
    /// CPU time of all processes per event in microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.service_cpu_us + self.engine_cpu_us
    }
}

/// Results of made-up peers, for tests of this and of other modules.
#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A round of the load `batches`.
    fn round(events_per_second: f64) -> PeerRound {
        PeerRound {
            load: "batches".to_owned(),
            events_per_second,
            queryable_per_second: Some(events_per_second / 2.0),
            service_cpu_us: 1.0,
            engine_cpu_us: 2.0,
            p99_ms: 3.5,
            ..PeerRound::default()
        }
    }

    fn peer(name: &str, label: &str, rates: &[f64], lost_events: u64) -> PeerRuns {
        PeerRuns {
            name: name.to_owned(),
            label: label.to_owned(),
            acknowledges: "at once".to_owned(),
            stores: name != "drops",
            version: "1.0".to_owned(),
            rounds: rates.iter().copied().map(round).collect(),
            kills: vec![PeerKill {
                acknowledged_events: 100,
                lost_events,
                doubled_events: 0,
            }],
        }
    }

    /// Millrace, a slow peer that loses events, one that stores nothing, and an absent one.
    pub fn results() -> PeerResults {
        PeerResults {
            machine: Machine {
                cpu: "EPYC".to_owned(),
                commit: "abc".to_owned(),
                ..Machine::default()
            },
            loads: vec![PeerLoad {
                name: "batches".to_owned(),
                title: "250 events of 998 B".to_owned(),
                connections: 16,
            }],
            peers: vec![
                peer("millrace", "Millrace", &[600.0, 300.0, 200.0], 0),
                peer("buffer", "A buffer", &[60.0, 30.0, 20.0], 40),
                peer("drops", "Drops all", &[900.0], 0),
            ],
            absent: vec![AbsentPeer {
                label: "Vector".to_owned(),
                reason: "no program".to_owned(),
                published: "26.7 MiB/s".to_owned(),
            }],
            ..PeerResults::default()
        }
    }

    #[test]
    fn the_fastest_other_stores_events() {
        let results = results();
        let fastest = results.fastest_other("batches").unwrap();
        assert_eq!(fastest.label, "A buffer");
        let ours = results.ours().unwrap();
        assert_eq!(fastest.behind(ours, "batches"), 10.0);
        assert!(fastest.rate("singles").median.is_nan());
    }

    #[test]
    fn results_of_a_short_run_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        assert!(PeerResults::read(dir.path()).unwrap().is_none());
        for (quick, shown) in [(true, false), (false, true)] {
            let json = serde_json::json!({
                "machine": Machine::default(), "command": "run.sh", "quick": quick,
                "loads": [], "peers": [], "absent": [],
            });
            std::fs::write(dir.path().join("peers.json"), json.to_string()).unwrap();
            let read = PeerResults::read(dir.path()).unwrap();
            assert_eq!(read.is_some(), shown, "quick: {quick}");
        }
    }
}
