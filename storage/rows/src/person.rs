//! Person updates: changes of a person or a group by one event.

use crate::rowbinary::{put_bytes, put_i64, put_u32, put_uuid, put_varint};
use crate::{Micros, ProjectId, RowKey};
use uuid::Uuid;

/// Bytes that the properties of one person or group may count together: each its name, its value
/// and [`PROPERTY_BYTES_BESIDE`].
pub const PERSON_PROPERTIES_BYTES_MAX: usize = 640 << 10;

/// Bytes that a property counts beside its name and value, for the time and uuid of the event that
/// wrote it.
pub const PROPERTY_BYTES_BESIDE: usize = 80;

/// One row of `person_updates`, borrowed from the request it came in.
///
/// Rows are applied in the order of `created_at`, `request_id`, `index`. That is the order in which
/// they arrived; properties have the event's own time, so the order of arrival does not matter for
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PersonUpdateRow<'a> {
    /// Project of the update.
    pub team_id: ProjectId,
    /// Time of receipt.
    pub created_at: Micros,
    /// Id of the request, the same for all of its events.
    pub request_id: Uuid,
    /// Index of the event in the batch, from 0.
    pub index: u32,
    /// Id of the event.
    pub uuid: Uuid,
    /// Time of the event.
    pub timestamp: Micros,
    /// Action of the update beside writing properties.
    pub kind: UpdateKind,
    /// Distinct id of the event's person; empty if the update is not about a person.
    pub distinct_id: &'a str,
    /// The other id of a merge; empty without a merge, or for an `$identify` that only names its
    /// user.
    pub other_id: &'a str,
    /// `$set`: a JSON object, or empty.
    pub person_set: &'a [u8],
    /// `$set_once`: a JSON object, or empty.
    pub person_set_once: &'a [u8],
    /// `$unset`: a JSON array of strings, a JSON object whose keys count, or empty.
    pub person_unset: &'a [u8],
    /// The type of the group that the event describes; empty if it describes none.
    pub group_type: &'a str,
    /// The group's key; empty if the event describes no group.
    pub group_key: &'a str,
    /// `$group_set`: a JSON object, or empty.
    pub group_set: &'a [u8],
}

/// Kind of an update: its action beside writing properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum UpdateKind {
    /// Nothing.
    #[default]
    Properties,
    /// `$identify`: the person is a user, and the anonymous person, if there is one, is merged into
    /// it.
    Identify,
    /// `$create_alias`: the person of the alias is merged into the named one.
    Alias,
    /// `$merge_dangerously`: like an alias, also if that person was identified before.
    Merge,
}

impl UpdateKind {
    const ALL: [Self; 4] = [Self::Properties, Self::Identify, Self::Alias, Self::Merge];

    /// Value of the column `kind`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Properties => "properties",
            Self::Identify => "identify",
            Self::Alias => "alias",
            Self::Merge => "merge",
        }
    }

    /// Returns the kind with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl PersonUpdateRow<'_> {
    /// Appends the row in the column order of [`crate::Table::insert_target`].
    pub fn append_to(&self, out: &mut Vec<u8>) {
        put_i64(out, self.team_id.0);
        put_i64(out, self.created_at.0);
        let mut text = Uuid::encode_buffer();
        let request_id = self.request_id.hyphenated().encode_lower(&mut text);
        put_varint(out, request_id.len() as u64);
        out.extend_from_slice(request_id.as_bytes());
        put_u32(out, self.index);
        put_uuid(out, self.uuid);
        put_i64(out, self.timestamp.0);
        put_bytes(out, self.kind.name().as_bytes());
        put_bytes(out, self.distinct_id.as_bytes());
        put_bytes(out, self.other_id.as_bytes());
        put_bytes(out, self.person_set);
        put_bytes(out, self.person_set_once);
        put_bytes(out, self.person_unset);
        put_bytes(out, self.group_type.as_bytes());
        put_bytes(out, self.group_key.as_bytes());
        put_bytes(out, self.group_set);
    }

    /// The key under which the row is found again.
    #[must_use]
    pub const fn key(&self) -> RowKey {
        RowKey {
            id: self.uuid,
            received_at: self.created_at,
            index: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_its_columns_in_order() {
        let row = PersonUpdateRow {
            team_id: ProjectId(1),
            created_at: Micros(2),
            request_id: Uuid::nil(),
            index: 7,
            uuid: Uuid::nil(),
            timestamp: Micros(3),
            kind: UpdateKind::Alias,
            distinct_id: "d",
            other_id: "o",
            person_set: b"{}",
            person_set_once: b"",
            person_unset: b"[]",
            group_type: "t",
            group_key: "k",
            group_set: b"",
        };
        let mut out = Vec::new();
        row.append_to(&mut out);
        assert_eq!(&out[16..53], b"\x2400000000-0000-0000-0000-000000000000");
        assert_eq!(&out[53..57], [7, 0, 0, 0]);
        assert_eq!(
            &out[57..81],
            [&[0; 16][..], &[3, 0, 0, 0, 0, 0, 0, 0]].concat()
        );
        assert_eq!(
            &out[81..],
            b"\x05alias\x01d\x01o\x02{}\x00\x02[]\x01t\x01k\x00"
        );
    }

    #[test]
    fn every_kind_is_found_by_its_name() {
        for kind in UpdateKind::ALL {
            assert_eq!(UpdateKind::named(kind.name()), Some(kind));
        }
        assert_eq!(UpdateKind::named("other"), None);
    }
}
