//! Budget of property columns: how many there may be, and how many bytes of an event they may take.
//!
//! A part of `events` has each column, those of other projects as well, though hardly a byte of
//! them. So an organization has half of all columns at most.

use millrace_catalog::entities::{projects, property_columns as columns};
use millrace_catalog::limits::{
    PROPERTY_COLUMN_BYTES_MAX, PROPERTY_COLUMNS_MAX, PROPERTY_COLUMNS_OF_ALL_MAX,
    PROPERTY_COLUMNS_OF_ORGANIZATION_MAX, must_have_fewer,
};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{ChangeError, PropertyColumnType};
use millrace_rows::PropertyType;
use sea_orm::{ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect};

/// Field of the API.
const FIELD: &str = "columns";

/// Type of a column with the longest text that it keeps.
pub(super) type Width = (PropertyColumnType, Option<i32>);

/// Refuses more columns, or wider ones, than a project or all projects may have.
pub(super) fn must_be_within(columns: &[Width]) -> Result<(), ChangeError> {
    let count = columns.len() as u64;
    if count > PROPERTY_COLUMNS_MAX {
        let detail = format!("At most {PROPERTY_COLUMNS_MAX} columns fit; these are {count}.");
        return Err(ChangeError::invalid(FIELD, "max_length", detail));
    }
    let bytes = row_bytes(columns);
    if bytes > PROPERTY_COLUMN_BYTES_MAX {
        let detail = format!(
            "The columns may take {PROPERTY_COLUMN_BYTES_MAX} bytes of an event together; these \
             take up to {bytes}. Lower bytes_max of texts, or leave columns out."
        );
        return Err(ChangeError::invalid(FIELD, "invalid_input", detail));
    }
    Ok(())
}

/// Bytes that columns take of an event at most.
pub(super) fn row_bytes(columns: &[Width]) -> u64 {
    let bytes = columns.iter().map(|(kind, bytes_max)| {
        let bytes_max = bytes_max.and_then(|bytes| u32::try_from(bytes).ok());
        u64::from(PropertyType::from(*kind).row_bytes(bytes_max.unwrap_or_default()))
    });
    bytes.sum()
}

/// Width of a column.
pub(super) fn width(row: &columns::Model) -> Width {
    (row.kind, row.bytes_max)
}

/// Refuses new columns of a project beyond what its organization, or all together, may have beside
/// `rows`.
pub(super) async fn must_have_capacity(
    within: &DatabaseTransaction,
    project: &projects::Model,
    rows: &[columns::Model],
    new: u64,
) -> Result<(), Abort> {
    if new == 0 {
        return Ok(());
    }
    let owners: Vec<i64> = rows.iter().filter_map(|row| row.team_id).collect();
    let beside = projects::Entity::find()
        .select_only()
        .column(projects::Column::Id)
        .filter(projects::Column::OrganizationId.eq(project.organization_id))
        .filter(projects::Column::Id.is_in(owners.iter().copied()))
        .into_tuple::<i64>()
        .all(within)
        .await?;
    let of_organization = owners.iter().filter(|id| beside.contains(id)).count() as u64;
    let of_all = owners.len() as u64;
    for (who, most, had) in [
        (
            "An organization",
            PROPERTY_COLUMNS_OF_ORGANIZATION_MAX,
            of_organization,
        ),
        ("This installation", PROPERTY_COLUMNS_OF_ALL_MAX, of_all),
    ] {
        // The last of the new ones has to fit, too.
        must_have_fewer(who, most, "property columns of projects", had + new - 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use PropertyColumnType::{Bool, Float64, Int64, String as Text};

    #[test]
    fn columns_are_refused_beyond_their_number_and_their_bytes() {
        let table: [(Vec<Width>, u64, Option<&str>); 6] = [
            (vec![], 0, None),
            (
                vec![(Int64, None), (Bool, None), (Text, Some(100))],
                111,
                None,
            ),
            (vec![(Text, Some(2_048)); 2], 4_096, None),
            (
                vec![(Text, Some(2_048)), (Text, Some(2_048)), (Bool, None)],
                4_098,
                Some("invalid_input"),
            ),
            (vec![(Float64, None); 20], 180, None),
            (vec![(Float64, None); 21], 189, Some("max_length")),
        ];
        for (columns, bytes, code) in table {
            assert_eq!(row_bytes(&columns), bytes, "{columns:?}");
            let refused = must_be_within(&columns).err();
            let violation = refused.and_then(|error| error.violation());
            assert_eq!(violation.map(|it| it.code), code, "{columns:?}");
        }
    }
}
