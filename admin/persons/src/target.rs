//! Check of a ClickHouse that this process has not copied to yet. It may be another one than the
//! catalog's persons were copied to, as after a change of `clickhouse_url`, or of an earlier time,
//! as after a restore: changes between the two would never be copied, and events of known persons
//! would have none of their properties.

use crate::failure::Failure;
use crate::state::PersonStore;
use millrace_catalog::Catalog;
use millrace_clickhouse::{ClickHouse, PersonTable};

/// Has everything copied again to a ClickHouse that lacks what was copied. The catalog is read
/// first: meanwhile ClickHouse only gets more.
pub(crate) async fn copy_again_if_behind(
    catalog: &Catalog,
    clickhouse: &ClickHouse,
) -> Result<(), Failure> {
    let store = PersonStore::new(catalog);
    let copied = store.progress().await?.copied;
    let latest = store.copied_versions(copied).await?;
    for (table, version) in [
        (PersonTable::Persons, latest.persons),
        (PersonTable::DistinctIds, latest.distinct_ids),
        (PersonTable::Groups, latest.groups),
    ] {
        let Some(version) = version else {
            continue;
        };
        let version = u64::try_from(version).unwrap_or_default();
        if clickhouse.latest_person_version(table).await? < version {
            tracing::warn!(
                table = table.name(),
                "ClickHouse lacks rows that were copied before, as another or a restored one does: all persons and groups \
                 are copied again"
            );
            store.copy_again().await?;
            return Ok(());
        }
    }
    Ok(())
}
