//! Tests of rejections, against the page on admission and what clients are told.

use super::*;
use std::collections::BTreeSet;
use std::path::Path;

/// One rejection of every kind.
const ALL: [Rejection; 21] = [
    Rejection::Starting,
    Rejection::TooManyConnections,
    Rejection::Overloaded,
    Rejection::BodyTooLarge { bytes_max: 1 },
    Rejection::BodyTooComplex,
    Rejection::KeyLookupFailed,
    Rejection::Pipeline(Refusal::QueueFull),
    Rejection::Pipeline(Refusal::LogFull),
    Rejection::Pipeline(Refusal::DiskFull),
    Rejection::Pipeline(Refusal::ImportLoadShed),
    Rejection::Pipeline(Refusal::LogFailed),
    Rejection::Pipeline(Refusal::ShuttingDown),
    Rejection::Pipeline(Refusal::NotShipped),
    Rejection::Pipeline(Refusal::TooLarge),
    Rejection::Import(ImportRefusal::FeatureMissing),
    Rejection::Import(ImportRefusal::TooLarge { per_minute: 1 }),
    Rejection::Import(ImportRefusal::Volume { left: 1 }),
    Rejection::Import(ImportRefusal::Rate {
        retry_after_seconds: 7,
        per_minute: 1,
    }),
    Rejection::Import(ImportRefusal::Unavailable),
    Rejection::Months(MonthLimitRefusal::TooMany { months: 121 }),
    Rejection::Months(MonthLimitRefusal::Later {
        retry_after_seconds: 7,
    }),
];

/// Moment of a rejection: before the body is read, after that, or both. A match over every kind,
/// so that a new one cannot be left out.
const fn body(rejection: Rejection) -> &'static str {
    match rejection {
        Rejection::Starting | Rejection::TooManyConnections => "before",
        Rejection::Overloaded | Rejection::BodyTooLarge { .. } => "both",
        Rejection::Pipeline(refusal) => match refusal {
            Refusal::QueueFull
            | Refusal::LogFull
            | Refusal::DiskFull
            | Refusal::ImportLoadShed
            | Refusal::LogFailed
            | Refusal::ShuttingDown => "both",
            Refusal::NotShipped | Refusal::TooLarge => "after",
        },
        Rejection::BodyTooComplex | Rejection::KeyLookupFailed => "after",
        Rejection::Import(
            ImportRefusal::FeatureMissing
            | ImportRefusal::TooLarge { .. }
            | ImportRefusal::Volume { .. }
            | ImportRefusal::Rate { .. }
            | ImportRefusal::Unavailable,
        ) => "after",
        Rejection::Months(MonthLimitRefusal::TooMany { .. } | MonthLimitRefusal::Later { .. }) => {
            "after"
        }
    }
}

/// Cells of the table in the page on admission: by whom, status, code, and moment.
fn rows_of_the_page() -> Vec<[String; 4]> {
    let rows = include_str!("../mod.rs").lines().filter_map(|line| {
        let cells: Vec<_> = line.strip_prefix("//! |")?.split('|').collect();
        let [_, _, by, status, code, body, ""] = cells[..] else {
            return None;
        };
        let cells = [by, status, code, body].map(|cell| cell.trim().to_owned());
        cells[1].parse::<u16>().is_ok().then_some(cells)
    });
    rows.collect()
}

#[test]
fn the_page_lists_every_rejection_with_its_status_code_and_moment() {
    let rejections = ALL.map(|rejection| {
        let error = rejection.into_error(2);
        let status = error.status.as_u16().to_string();
        [
            status,
            format!("`{}`", error.code),
            body(rejection).to_owned(),
        ]
    });
    let rows = rows_of_the_page().into_iter();
    let rows: BTreeSet<_> = rows
        .map(|[_, status, code, body]| [status, code, body])
        .collect();
    assert_eq!(rows, BTreeSet::from(rejections));
}

#[test]
fn the_page_names_modules_that_exist() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for [by, ..] in rows_of_the_page() {
        for module in by.split(", ").filter(|module| *module != "pipeline") {
            let path = module.trim_matches('`').replace("::", "/");
            let folders = [source.clone(), source.join("admission")];
            let is_there = folders.iter().any(|folder| {
                let folder = folder.join(&path);
                folder.is_dir() || folder.with_extension("rs").is_file()
            });
            assert!(is_there, "{module}");
        }
    }
}

/// Returns true if events of the request are stored, or may be, all the same. A match over
/// every kind, so that a new one cannot be left out.
const fn may_be_stored(rejection: Rejection) -> bool {
    match rejection {
        Rejection::Pipeline(refusal) => match refusal {
            Refusal::LogFailed | Refusal::NotShipped => true,
            Refusal::QueueFull
            | Refusal::LogFull
            | Refusal::DiskFull
            | Refusal::ImportLoadShed
            | Refusal::ShuttingDown
            | Refusal::TooLarge => false,
        },
        Rejection::Import(
            ImportRefusal::FeatureMissing
            | ImportRefusal::TooLarge { .. }
            | ImportRefusal::Volume { .. }
            | ImportRefusal::Rate { .. }
            | ImportRefusal::Unavailable,
        )
        | Rejection::Months(MonthLimitRefusal::TooMany { .. } | MonthLimitRefusal::Later { .. })
        | Rejection::Starting
        | Rejection::TooManyConnections
        | Rejection::Overloaded
        | Rejection::BodyTooLarge { .. }
        | Rejection::BodyTooComplex
        | Rejection::KeyLookupFailed => false,
    }
}

#[test]
fn only_rejections_that_stored_nothing_say_so() {
    let mut codes_of_stored = BTreeSet::new();
    for rejection in ALL {
        let error = rejection.into_error(2);
        let says_nothing = error.detail.to_lowercase().contains("nothing");
        match may_be_stored(rejection) {
            true => {
                assert!(!says_nothing, "{}: {}", error.code, error.detail);
                codes_of_stored.insert(error.code.to_string());
            }
            // Those that are decided before the queue need not say so.
            false => assert!(
                !matches!(rejection, Rejection::Pipeline(_)) || says_nothing,
                "{}: {}",
                error.code,
                error.detail
            ),
        }
    }
    // `millrace rejected resend` takes every other 503 for one that stored nothing.
    let known = ["log_failed", "not_shipped"].map(str::to_owned);
    assert_eq!(codes_of_stored, BTreeSet::from(known));
}

#[test]
fn temporary_rejections_have_a_retry_after_and_permanent_ones_none() {
    for rejection in ALL {
        let error = rejection.into_error(2);
        let expected = match rejection {
            Rejection::Import(ImportRefusal::Rate { .. })
            | Rejection::Months(MonthLimitRefusal::Later { .. }) => Some(7),
            _ if error.status == StatusCode::SERVICE_UNAVAILABLE => Some(2),
            _ => None,
        };
        assert_eq!(error.retry_after_seconds, expected, "{rejection:?}");
    }
}
