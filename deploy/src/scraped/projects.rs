//! Events and bytes a second of the projects with most events, as counted in `project_stats`.
//!
//! The process that counts events publishes them; a page of any other process has none. They are
//! gauges, as the sum of all other projects falls when one of them becomes one of the largest.

use super::text::{Kind, describe, labelled};
use std::sync::{Mutex, PoisonError};

const EVENTS: &str = "millrace_project_events_per_second";
const BYTES: &str = "millrace_project_bytes_per_second";
/// Label of all projects together that are not among the largest.
const OTHERS: &str = "other";
/// Projects that have series of their own, at most: a page has three lines of each.
pub const PROJECTS_MAX: u32 = 100;

/// Rates that were published last.
static PUBLISHED: Mutex<Vec<ProjectRate>> = Mutex::new(Vec::new());

/// Events and bytes of a project in a second, on average.
#[derive(Clone, Debug)]
pub struct ProjectRate {
    /// Id of the project; `None` for all that are not among the largest.
    pub project_id: Option<i64>,
    /// Events that were accepted.
    pub accepted: f64,
    /// Events that were rejected.
    pub rejected: f64,
    /// Bytes of the properties of accepted events.
    pub bytes: f64,
}

/// Replaces the rates that pages have.
pub fn publish_projects(rates: Vec<ProjectRate>) {
    *PUBLISHED.lock().unwrap_or_else(PoisonError::into_inner) = rates;
}

/// Removes the rates: another process counts.
pub fn clear_projects() {
    publish_projects(Vec::new());
}

/// Appends the rates of the largest projects.
pub(super) fn append(page: &mut String) {
    let published = PUBLISHED.lock().unwrap_or_else(PoisonError::into_inner);
    let rates = published.clone();
    drop(published);
    write(page, &rates);
}

fn write(page: &mut String, rates: &[ProjectRate]) {
    if rates.is_empty() {
        return;
    }
    let description =
        "Events a second of a project over the last five minutes that are counted, by outcome";
    describe(page, EVENTS, Kind::Gauge, description);
    for rate in rates {
        let project = rate.label();
        for (outcome, events) in [("accepted", rate.accepted), ("rejected", rate.rejected)] {
            let labels = format!("{project},outcome=\"{outcome}\"");
            labelled(page, EVENTS, labels, events);
        }
    }
    let description =
        "Bytes of properties a second of a project's accepted events, over those minutes";
    describe(page, BYTES, Kind::Gauge, description);
    for rate in rates {
        labelled(page, BYTES, rate.label(), rate.bytes);
    }
}

// === impl ProjectRate ===

impl ProjectRate {
    fn label(&self) -> String {
        let id = self.project_id.map(|id| id.to_string());
        format!("project_id=\"{}\"", id.as_deref().unwrap_or(OTHERS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_project_has_three_lines_and_the_rest_is_one_more() {
        let rate = |project_id, accepted| ProjectRate {
            project_id,
            accepted,
            rejected: 0.5,
            bytes: 10.0,
        };
        let mut page = String::new();
        write(&mut page, &[rate(Some(7), 3.0), rate(None, 1.25)]);
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            r#"millrace_project_events_per_second{project_id="7",outcome="accepted"} 3"#,
            r#"millrace_project_events_per_second{project_id="7",outcome="rejected"} 0.5"#,
            r#"millrace_project_events_per_second{project_id="other",outcome="accepted"} 1.25"#,
            r#"millrace_project_events_per_second{project_id="other",outcome="rejected"} 0.5"#,
            r#"millrace_project_bytes_per_second{project_id="7"} 10"#,
            r#"millrace_project_bytes_per_second{project_id="other"} 10"#,
        ];
        assert_eq!(samples, expected);
    }

    #[test]
    fn a_process_that_does_not_count_has_no_lines() {
        let mut page = String::new();
        write(&mut page, &[]);
        assert_eq!(page, "");
    }
}
