//! ClickHouse: whether it can be reached and used, its version and its clock.

use super::{Finding, clock};
use crate::config::{Config, Engine};
use crate::connect::{configured_settings, embedded_settings};
use crate::credentials::Credentials;
use crate::serve::Parts;
use millrace_clickhouse::{ClickHouse, Purpose, QueryError};
use millrace_embedded::{Confinement, find_library};
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;

const CLICKHOUSE: &str = "ClickHouse";
/// Version that the tests of this program run with: that of the embedded engine.
const TESTED: (u32, u32) = (26, 7);
/// Longest wait for the embedded engine, which may not run.
const ENGINE_MAX: Duration = Duration::from_secs(3);

/// Checks the ClickHouse of the settings.
pub(super) async fn check(config: &Config, parts: Parts) -> Vec<Finding> {
    match &config.engine {
        Engine::Embedded { library, .. } if parts.ingest => {
            embedded(config, library.as_deref()).await
        }
        Engine::Embedded { .. } => Vec::new(),
        Engine::Server { .. } => server(config, parts).await,
    }
}

/// Checks the library, the kernel, and the engine if it runs.
async fn embedded(config: &Config, library: Option<&Path>) -> Vec<Finding> {
    let path = match find_library(library) {
        Ok(path) => path,
        Err(error) => {
            let found = "the embedded ClickHouse cannot be loaded";
            return vec![Finding::error(CLICKHOUSE, found, error.to_string())];
        }
    };
    let mut findings = Vec::new();
    if let Some(warning) = Confinement::supported_by_kernel().warning() {
        let advice = "run a kernel from 6.12 on, with Landlock";
        findings.push(Finding::warning(CLICKHOUSE, warning, advice));
    }
    let credentials = Credentials::load(&config.credentials_path()).ok().flatten();
    let version = match &credentials {
        Some(known) => {
            let clickhouse = ClickHouse::new(&embedded_settings(config, known));
            timeout(ENGINE_MAX, clickhouse.version()).await.ok()
        }
        None => None,
    };
    findings.push(match version {
        Some(Ok(version)) => Finding::ok(
            CLICKHOUSE,
            format!("the embedded ClickHouse runs, version {version}"),
        ),
        _ => Finding::ok(
            CLICKHOUSE,
            format!(
                "the embedded one is {}; it runs while the server does",
                path.display()
            ),
        ),
    });
    findings
}

/// Checks a server: address, user, rights and tables, then version and clock.
async fn server(config: &Config, parts: Parts) -> Vec<Finding> {
    let Some(settings) = configured_settings(config) else {
        return Vec::new();
    };
    let clickhouse = ClickHouse::new(&settings);
    let purpose = match parts.ingest {
        true => Purpose::Events,
        false => Purpose::Persons,
    };
    let (url, user) = (&settings.url, &settings.user);
    let usable = match clickhouse.has_tables(purpose).await {
        Ok(true) => format!("{url} answers, and the user {user} has the rights to read and write"),
        Ok(false) => format!(
            "{url} answers the user {user}, and has no tables yet: the first start makes them, or `millrace migrate`"
        ),
        Err(problem) => return vec![Finding::error(CLICKHOUSE, problem.words, problem.advice)],
    };
    let mut findings = vec![Finding::ok(CLICKHOUSE, usable)];
    findings.extend(
        clickhouse
            .version()
            .await
            .map(|version| version_finding(&version)),
    );
    findings.extend(clock_finding(&clickhouse).await);
    findings
}

/// Judges the version of a server.
fn version_finding(version: &str) -> Finding {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let found = format!("its version is {version}");
    let (Some(Ok(year)), Some(Ok(month))) = (numbers.next(), numbers.next()) else {
        return Finding::ok(CLICKHOUSE, found);
    };
    let (tested_year, tested_month) = TESTED;
    match (year, month) < TESTED {
        false => Finding::ok(CLICKHOUSE, found),
        true => Finding::warning(
            CLICKHOUSE,
            format!("{found}; Millrace is tested with {tested_year}.{tested_month}"),
            "upgrade ClickHouse, or try imports, queries and exports of yours before you rely on them",
        ),
    }
}

async fn clock_finding(clickhouse: &ClickHouse) -> Result<Finding, QueryError> {
    let before = clock::now_micros();
    let told = clickhouse.now_micros().await?;
    let told = i64::try_from(told).unwrap_or(i64::MAX);
    Ok(clock::finding(
        "ClickHouse",
        before,
        told,
        clock::now_micros(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    #[test]
    fn an_older_version_than_the_tested_one_is_warned_of() {
        let table = [
            ("26.7.2.1", Status::Ok),
            ("26.10.1.5", Status::Ok),
            ("27.1.1.1", Status::Ok),
            ("26.3.9.8-lts", Status::Warning),
            ("24.8.1.1", Status::Warning),
            ("", Status::Ok),
        ];
        for (version, status) in table {
            assert_eq!(version_finding(version).status, status, "{version}");
        }
    }

    #[test]
    fn the_tested_version_is_that_of_the_engine() {
        let package = include_str!("../../embedded/package.json");
        let (year, month) = TESTED;
        assert!(package.contains(&format!("\"{year}.{month}.")), "{package}");
    }
}
