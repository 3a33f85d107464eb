//! Bounds of a report, and the conditions under which it is right.

use super::*;
use crate::attack::good_tenant::load::Latency;
use crate::attack::phase::{PhaseKind, ResponseCounts, Spread};
use crate::attack::subject::ENGINE_MEMORY_BYTES;

const SERVED: ResponseCounts = ResponseCounts {
    taken: 200,
    refused: 0,
};

/// Report of a tenant that is served in calm and under attack.
fn report(calm_ms: f64, attack_ms: f64) -> Report {
    let mut report = Report::new(1);
    for (kind, p99_ms) in [(PhaseKind::Calm, calm_ms), (PhaseKind::Attack, attack_ms)] {
        let latency = Latency {
            answers: SERVED,
            p99_ms,
            ..Latency::default()
        };
        report.phases.push(PhaseReport {
            kind,
            singles: latency,
            batches: latency,
        });
    }
    let seconds = Seconds {
        attack: Spread::of(&[1.0]),
        served: 1,
        answers: SERVED,
        ..Seconds::default()
    };
    report.persons = seconds.clone();
    report.exports = seconds.clone();
    report.answers = seconds.clone();
    report.watermark = seconds;
    report.memory = vec![Memory {
        calm_bytes: 0,
        most_bytes: 1,
        at_end_bytes: 0,
        after_bytes: 0,
        kinds: MemoryKinds::default(),
        engine_calm_bytes: 0,
        engine_most_bytes: 1,
    }];
    report.verification = Some(VerifyReport::default());
    report
}

#[test]
fn latency_may_double_or_reach_50_milliseconds() {
    for (calm_ms, attack_ms, beyond) in [
        (1.0, 50.0, 0),
        (1.0, 51.0, 2),
        (100.0, 200.0, 0),
        (100.0, 201.0, 2),
    ] {
        let report = report(calm_ms, attack_ms);
        assert_eq!(report.slow().len(), beyond, "{calm_ms} {attack_ms}");
        assert!(report.is_right(), "time is not what is right");
    }
}

#[test]
fn an_extra_round_shows_that_somebody_is_served_and_is_not_timed() {
    let extra = |taken, refused, p99_ms| {
        let answers = ResponseCounts { taken, refused };
        let latency = Latency {
            answers,
            p99_ms,
            ..Latency::default()
        };
        PhaseReport {
            kind: PhaseKind::ExtraAttack,
            singles: latency,
            batches: latency,
        }
    };
    // Of the extra round: accepted, refused, and its latency.
    for (taken, refused, p99_ms) in [(200, 0, 1.0), (1, 100, 60_000.0), (0, 0, 0.0)] {
        for (attack_ms, beyond) in [(50.0, 0), (51.0, 2)] {
            let mut report = report(1.0, attack_ms);
            report.phases.push(extra(taken, refused, p99_ms));
            assert_eq!(report.slow().len(), beyond, "{taken} {attack_ms}");
        }
        let mut report = report(1.0, 1.0);
        let phase = &mut report.phases[1];
        (phase.singles.answers, phase.batches.answers) = Default::default();
        report.phases.push(extra(taken, refused, p99_ms));
        assert_eq!(report.unserved().is_empty(), taken > 0, "{taken}");
        let latencies = report.slow().into_iter();
        let latencies = latencies.filter(|bound| bound.name.contains("p99"));
        assert_eq!(latencies.count(), 2, "nobody was served in time: {taken}");
    }
}

#[test]
fn the_engine_may_take_its_limit_and_what_it_has_in_calm() {
    for (most_bytes, beyond) in [
        (ENGINE_MEMORY_BYTES + (300 << 20), 0),
        (ENGINE_MEMORY_BYTES + (301 << 20), 1),
    ] {
        let mut report = report(1.0, 1.0);
        report.memory[0].engine_calm_bytes = 300 << 20;
        report.memory[0].engine_most_bytes = most_bytes;
        assert_eq!(report.slow().len(), beyond, "{most_bytes}");
    }
}

#[test]
fn the_watermark_beside_many_months_has_a_bound_of_its_own() {
    for (figures, beyond) in [(&[6.0][..], 0), (&[1.0, 6.2][..], 1), (&[][..], 1)] {
        let mut report = report(1.0, 1.0);
        report.watermark.calm = Spread::of(&[1.1]);
        report.watermark.months = Spread::of(figures);
        assert_eq!(report.slow().len(), 0, "no such phase was run");
        report.phases.push(PhaseReport {
            kind: PhaseKind::Months,
            singles: Latency::default(),
            batches: Latency::default(),
        });
        assert_eq!(report.slow().len(), beyond, "{figures:?}");
        assert_eq!(report.unserved(), <[&str; 0]>::default());
    }
}

#[test]
fn an_operation_that_is_not_answered_in_its_time_breaks_a_bound() {
    for (seconds, count, beyond) in [(1.0, 9, 0), (30.9, 9, 0), (31.1, 9, 1), (0.0, 0, 1)] {
        let mut report = report(1.0, 1.0);
        report.latest_operation = Some(OperationTimes {
            count,
            max_ms: seconds * 1e3,
            promised_seconds: 30.0,
            ..OperationTimes::default()
        });
        assert_eq!(report.slow().len(), beyond, "{seconds}");
        assert!(report.is_right(), "time is not what is right");
    }
}

#[test]
fn at_most_one_percent_may_be_refused() {
    let beyond = |refused| {
        let mut report = report(1.0, 1.0);
        let answers = ResponseCounts {
            taken: 1000 - refused,
            refused,
        };
        for phase in &mut report.phases {
            (phase.singles.answers, phase.batches.answers) = (answers, answers);
        }
        for of in [
            &mut report.persons,
            &mut report.exports,
            &mut report.answers,
        ] {
            of.answers = answers;
        }
        assert!(report.is_right());
        report.slow().len()
    };
    assert_eq!((beyond(10), beyond(11)), (0, 5));
}

#[test]
fn a_service_that_was_never_given_breaks_its_bounds() {
    type Change = fn(&mut Report);
    let changes: [(Change, &str); 6] = [
        (|it| it.phases[1].singles.answers.taken = 0, "single events"),
        (|it| it.phases[1].batches.answers.taken = 0, "batches"),
        (|it| it.persons = Seconds::default(), "persons"),
        (|it| it.exports = Seconds::default(), "exports"),
        (|it| it.watermark = Seconds::default(), "watermark"),
        (|it| it.answers = Seconds::default(), "API"),
    ];
    for (change, name) in changes {
        let mut report = report(1.0, 1.0);
        change(&mut report);
        assert_eq!(report.unserved(), [name]);
        assert_eq!(report.missing(), [name], "one more round is run for it");
        assert!(!report.is_right(), "{name}");
        let slow = report.slow();
        assert!(
            slow.iter().any(|bound| bound.name.starts_with(name)),
            "{name}"
        );
    }
}

#[test]
fn attempts_that_were_not_processed_fail_a_complete_run_of_all_tasks() {
    let findings = Findings::default();
    findings.coverage.expect("fields", &["a".to_owned()]);
    let file = std::path::PathBuf::new;
    let mut options = Options::new(file(), file(), file(), 1);
    let missing = |options: &Options| {
        let mut report = report(1.0, 1.0);
        report.add(&findings, options);
        let unproved = report.unproved.iter();
        unproved
            .filter(|it| it.starts_with("fields: 0 of 1"))
            .count()
    };
    assert_eq!(missing(&options), 1);
    options.only = vec!["fields".to_owned()];
    assert_eq!(missing(&options), 0);
    options.only.clear();
    options.is_complete = false;
    assert_eq!(missing(&options), 0);
    options.is_complete = true;
    findings.coverage.mark("fields", "a");
    assert_eq!(missing(&options), 0);
}

#[test]
fn violations_losses_excess_memory_and_missing_attacks_fail_the_report() {
    let is_right = |change: fn(&mut Report)| {
        let mut report = report(1.0, 1.0);
        change(&mut report);
        report.is_right()
    };
    assert!(is_right(|_| {}));
    assert!(!is_right(|report| report.wrong = 1));
    assert!(!is_right(|report| report.verification = None));
    assert!(!is_right(|report| {
        let verification = report.verification.get_or_insert_default();
        verification.missing.batches = 1;
    }));
    assert!(!is_right(|report| {
        report.memory[0].most_bytes = MEMORY_BYTES_MAX + 1;
    }));
    assert!(!is_right(|report| report.unproved.push("bombs".to_owned())));
    let mut report = report(1.0, 1.0);
    assert_eq!(report.missing(), <[String; 0]>::default());
    report.unproved.push("bombs".to_owned());
    assert_eq!(report.missing(), ["bombs"], "one more round is run for it");
}
