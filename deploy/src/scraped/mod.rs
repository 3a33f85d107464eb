//! Metrics that are read when a page of them is rendered, and those that never change.
//!
//! The recorder of the crate `metrics` keeps a series for ever and counts in whole numbers. So what
//! ends, as a project among the largest, and what has fractions, as seconds of the processor, is
//! written to the page directly.
//!
//! | Module | Holds |
//! |---|---|
//! | `text` | Prometheus' text format |
//! | `process` | processor, memory, files and threads of the process and of its engine |
//! | `projects` | the projects with most events, and the sum of all others |

mod process;
mod projects;
mod text;

pub use process::note_engine;
pub use projects::{PROJECTS_MAX, ProjectRate, clear_projects, publish_projects};

use metrics::{describe_gauge, gauge};
use metrics_exporter_prometheus::PrometheusHandle;
use millrace_ingest::{Collector, MetricsSource};

const BUILD_INFO: &str = "millrace_build_info";
/// Commit of the source, or `unknown` of a build without its repository.
const COMMIT: &str = env!("BUILD_COMMIT");
/// Version of the engine's package that this version is tested with.
const ENGINE_VERSION: &str = env!("BUILD_ENGINE_VERSION");

/// Metrics of a recorder, and those that are read with each page.
pub fn source(recorder: PrometheusHandle) -> MetricsSource {
    process::note_start();
    describe_gauge!(
        BUILD_INFO,
        "1; its labels are the version and the commit of the program, and the version of the engine's package"
    );
    gauge!(
        BUILD_INFO,
        "version" => env!("CARGO_PKG_VERSION"),
        "commit" => COMMIT,
        "engine_version" => ENGINE_VERSION
    )
    .set(1.0);
    let collectors: Vec<Collector> = vec![process::append, projects::append];
    MetricsSource::new(recorder, collectors)
}
