//! Phases in which figures count, and their percentiles.

use super::*;

#[test]
fn an_action_from_calm_into_attack_counts_for_neither() {
    let samples = Samples::default();
    let (calm, attack) = (PhaseKind::Calm, PhaseKind::Attack);
    let (settling, over) = (PhaseKind::Settling, PhaseKind::Over);
    let months = PhaseKind::Months;
    let extra = PhaseKind::ExtraAttack;
    for (began, ended) in [
        (calm, calm),
        (calm, over),
        (calm, attack),
        (attack, attack),
        (attack, settling),
        (attack, over),
        (settling, settling),
        (settling, calm),
        (settling, extra),
        (extra, extra),
        (extra, settling),
        (calm, months),
        (months, months),
        (months, calm),
    ] {
        samples.note(began, ended, 1.0);
    }
    let seconds = samples.seconds();
    assert_eq!((seconds.calm.count, seconds.attack.count), (2, 3));
    assert_eq!((seconds.months.count, seconds.extra.count), (2, 2));
    assert_eq!(
        seconds.served, 7,
        "two were there when the attack came, and two are of an extra round"
    );
}

#[test]
fn responses_count_under_attack_and_none_at_all_is_100_percent_refused() {
    let samples = Samples::default();
    assert_eq!(samples.seconds().answers.refused_percent(), 100.0);
    for (kind, is_refused) in [
        (PhaseKind::Calm, true),
        (PhaseKind::Attack, false),
        (PhaseKind::Attack, true),
        (PhaseKind::Attack, false),
        (PhaseKind::Attack, false),
        (PhaseKind::Over, true),
        (PhaseKind::ExtraAttack, true),
    ] {
        samples.answered(kind, is_refused);
    }
    let answers = samples.seconds().answers;
    assert_eq!((answers.taken, answers.refused), (3, 1));
    assert_eq!(answers.refused_percent(), 25.0);
}

#[test]
fn percentiles_do_not_depend_on_the_order_of_figures() {
    let figures: Vec<f64> = (1..=100).rev().map(f64::from).collect();
    let spread = Spread::of(&figures);
    assert_eq!((spread.p50, spread.p95, spread.max), (50.0, 95.0, 100.0));
    assert_eq!(Spread::of(&[7.0]).p95, 7.0);
    assert_eq!(Spread::of(&[]), Spread::default());
}

#[test]
fn the_current_phase_is_the_one_that_was_set() {
    let current = CurrentPhase::default();
    assert_eq!(current.now(), PhaseKind::Calm);
    for kind in [
        PhaseKind::Calm,
        PhaseKind::Attack,
        PhaseKind::ExtraAttack,
        PhaseKind::Months,
        PhaseKind::Settling,
        PhaseKind::Over,
    ] {
        current.set(kind);
        assert_eq!(current.now(), kind);
    }
}
