//! One accepted event.

use crate::rowbinary::{put_bool, put_bytes, put_i64, put_pieces, put_uuid};
use crate::{Micros, ProjectId, RowKey};
use uuid::Uuid;

/// One row of `events`, borrowed from the request it came in.
#[derive(Clone, Copy, Debug)]
pub struct EventRow<'a> {
    /// Id that the client gave the event, or else a generated one.
    pub uuid: Uuid,
    /// The event's name, as text.
    pub event: &'a [u8],
    /// The JSON text of the properties, in pieces that are stored one after the other.
    pub properties: &'a [&'a [u8]],
    /// Time of the event.
    pub timestamp: Micros,
    /// Project of the event.
    pub team_id: ProjectId,
    /// Distinct id of the event's person, as text.
    pub distinct_id: &'a [u8],
    /// Time of receipt; the version column of the table.
    pub created_at: Micros,
    /// True if the client sent the event as part of a historical migration.
    pub historical_migration: bool,
}

impl EventRow<'_> {
    /// Appends the row in the column order of [`crate::Table::insert_target`].
    #[inline]
    pub fn append_to(&self, out: &mut Vec<u8>) {
        put_uuid(out, self.uuid);
        put_bytes(out, self.event);
        put_pieces(out, self.properties);
        put_i64(out, self.timestamp.0);
        put_i64(out, self.team_id.0);
        put_bytes(out, self.distinct_id);
        put_i64(out, self.created_at.0);
        put_bool(out, self.historical_migration);
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
        let row = EventRow {
            uuid: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            event: b"e",
            properties: &[b"{", b"}"],
            timestamp: Micros(1),
            team_id: ProjectId(2),
            distinct_id: b"d",
            created_at: Micros(3),
            historical_migration: true,
        };
        let mut out = Vec::new();
        row.append_to(&mut out);
        let expected = [
            &[8, 7, 6, 5, 4, 3, 2, 1, 16, 15, 14, 13, 12, 11, 10, 9][..],
            &[1, b'e', 2, b'{', b'}'],
            &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0],
            &[1, b'd', 3, 0, 0, 0, 0, 0, 0, 0, 1],
        ]
        .concat();
        assert_eq!(out, expected);
    }
}
