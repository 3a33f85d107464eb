//! The catalog: whether it can be opened, the version of its schema, and the clock of its server.

use super::{Finding, clock};
use crate::config::Config;
use crate::serve::Parts;
use millrace_catalog::{Catalog, CatalogError, SchemaVersion};

const CATALOG: &str = "catalog";

/// Checks the catalog of the settings.
pub(super) async fn check(config: &Config, parts: Parts) -> Vec<Finding> {
    let before = clock::now_micros();
    let examined = Catalog::examine(&config.database_url).await;
    let after = clock::now_micros();
    let found = match examined {
        Ok(found) => found,
        Err(CatalogError::Missing { location }) => {
            let found = format!("there is none at {location} yet; the first start makes it");
            return vec![Finding::ok(CATALOG, found)];
        }
        Err(error) => {
            let advice = "correct database_url, or what the message names";
            return vec![Finding::error(CATALOG, error.to_string(), advice)];
        }
    };
    let location = &found.location;
    let mut findings = vec![match found.schema {
        SchemaVersion::Current => Finding::ok(
            CATALOG,
            format!("{location} has the schema of this version"),
        ),
        SchemaVersion::None => Finding::ok(
            CATALOG,
            format!("{location} is empty; the first start makes its tables"),
        ),
        SchemaVersion::Earlier => Finding::warning(
            CATALOG,
            format!("{location} has the schema of an earlier version"),
            "make a backup, then start the server or run `millrace migrate`, which brings it up to date",
        ),
    }];
    let told = found.server_micros;
    findings.extend(told.map(|told| clock::finding("PostgreSQL", before, told, after)));
    if told.is_none() && is_one_of_several(config, parts) {
        let advice = "give all processes one PostgreSQL with database_url";
        let found =
            format!("{location} is a file of this machine, which other machines do not have");
        findings.push(Finding::warning(CATALOG, found, advice));
    }
    findings
}

/// Returns true for a process that works with others, as it has but one part and listens for them.
fn is_one_of_several(config: &Config, parts: Parts) -> bool {
    parts.ingest != parts.admin && config.node_addr.is_some()
}
