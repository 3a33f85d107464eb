//! Check of an installation from outside: machine, folders, ports and services, each with what to
//! do about it. Nothing is changed, migrated or started, and a running server goes on beside it.
//!
//! | Module | Checks |
//! |---|---|
//! | `finding` | findings, and how they are printed |
//! | `folders` | owner and mode of the data folder, room on the disks, their time of a sync |
//! | `limits` | open files and memory |
//! | `ports` | addresses to listen on |
//! | `clickhouse`, `catalog` | whether they can be used, and their clocks |
//! | `services` | mail and nameserver |

mod catalog;
mod clickhouse;
mod clock;
mod finding;
mod folders;
mod limits;
mod ports;
mod services;

pub use finding::{Finding, Status};

use crate::config::Config;
use crate::connect;
use crate::serve::Parts;

/// Checks what the parts of a process need.
///
/// # Errors
/// When no runtime can be started; all else is a finding.
pub fn check(config: &Config, parts: Parts) -> anyhow::Result<Vec<Finding>> {
    let mut findings = vec![folders::data_folder(&config.data_dir)];
    findings.extend(folders::disks(config, parts));
    if parts.ingest {
        findings.push(folders::sync(&config.log_dir));
    }
    findings.push(limits::open_files(parts));
    findings.extend(limits::memory(config, parts));
    findings.extend(ports::check(config, parts));
    connect::block_on(async {
        let (in_clickhouse, in_catalog) = tokio::join!(
            clickhouse::check(config, parts),
            catalog::check(config, parts)
        );
        findings.extend(in_clickhouse);
        findings.extend(in_catalog);
        if parts.admin {
            let (mail, nameserver) =
                tokio::join!(services::mail(config), services::nameserver(config));
            findings.extend([mail, nameserver]);
        }
        Ok(())
    })?;
    Ok(findings)
}
