//! Live stream of a request's events: what those who watch are shown beside the rows.

use super::context::RequestContext;
use millrace_catalog::key::mask;
use millrace_live::{Observation, RequestFacts};
use millrace_parse::{KeyLookup, Parsed, Report};

/// Key of a request that somebody may watch.
#[derive(Debug)]
pub struct WatchedKey {
    mask: String,
    /// True if the addresses of the project's clients are not kept.
    hides_ip: bool,
}

impl WatchedKey {
    /// Key of a project that was found.
    #[cold]
    pub fn of(key: &str, lookup: KeyLookup) -> Option<Self> {
        match lookup {
            KeyLookup::Found(project) => Some(Self {
                mask: mask(key),
                hides_ip: project.anonymize_ips,
            }),
            KeyLookup::Missing | KeyLookup::Unknown => None,
        }
    }
}

/// Copies the rows of a request, if anybody watches its project. Events of a dry run are neither
/// accepted nor rejected.
#[cold]
pub fn observe(
    request: &RequestContext<'_>,
    parsed: &Parsed,
    key: WatchedKey,
) -> Option<Box<Observation>> {
    if parsed.dry_run {
        return None;
    }
    let live = &request.core.process.deps.live;
    live.observe(parsed.project_id, &parsed.batch, || RequestFacts {
        client_ip: (!key.hides_ip).then(|| request.client_ip()),
        key: Some(key.mask),
        ..facts(parsed.accepted, &parsed.report)
    })
}

fn facts(accepted: u32, report: &Report) -> RequestFacts {
    let rejected = report.rejected.iter();
    let warnings = report.warnings.iter();
    RequestFacts {
        key: None,
        client_ip: None,
        accepted,
        rejected: report.rejected_count,
        rejected_indexes: rejected.map(|rejection| rejection.index).collect(),
        warnings: warnings
            .map(|warning| (warning.index, warning.code))
            .collect(),
        warning_count: report.warning_count,
    }
}
