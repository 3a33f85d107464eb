//! One rejected event.

use crate::rowbinary::{put_bool, put_bytes, put_i64, put_u32, put_varint};
use crate::{Micros, ProjectId, RowKey};
use uuid::Uuid;

/// One row of `rejected_events`, borrowed from the request it came in.
#[derive(Clone, Copy, Debug)]
pub struct RejectedRow<'a> {
    /// Project of the event.
    pub team_id: ProjectId,
    /// Time of receipt.
    pub received_at: Micros,
    /// Id of the request, the same for all of its events.
    pub request_id: Uuid,
    /// Index of the event in the batch, from 0.
    pub index: u32,
    /// Reason of the rejection, as the answer's `code`.
    pub code: &'a str,
    /// Part of the event that is at fault, as the answer's `attr`.
    pub attr: &'a str,
    /// Reason of the rejection, in a sentence.
    pub detail: &'a str,
    /// The event's JSON as it was sent.
    pub raw: &'a [u8],
    /// True if the client sent the event as part of a historical migration.
    pub historical_migration: bool,
}

impl RejectedRow<'_> {
    /// Appends the row in the column order of [`crate::Table::insert_target`].
    pub fn append_to(&self, out: &mut Vec<u8>) {
        put_i64(out, self.team_id.0);
        put_i64(out, self.received_at.0);
        let mut text = Uuid::encode_buffer();
        let request_id = self.request_id.hyphenated().encode_lower(&mut text);
        put_varint(out, request_id.len() as u64);
        out.extend_from_slice(request_id.as_bytes());
        put_u32(out, self.index);
        put_bytes(out, self.code.as_bytes());
        put_bytes(out, self.attr.as_bytes());
        put_bytes(out, self.detail.as_bytes());
        put_bytes(out, self.raw);
        put_bool(out, self.historical_migration);
    }

    /// The key under which the row is found again.
    #[must_use]
    pub const fn key(&self) -> RowKey {
        RowKey {
            id: self.request_id,
            received_at: self.received_at,
            index: Some(self.index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_id_is_stored_as_text() {
        let row = RejectedRow {
            team_id: ProjectId(1),
            received_at: Micros(2),
            request_id: Uuid::nil(),
            index: 7,
            code: "c",
            attr: "",
            detail: "d",
            raw: b"{}",
            historical_migration: false,
        };
        let mut out = Vec::new();
        row.append_to(&mut out);
        assert_eq!(&out[16..53], b"\x2400000000-0000-0000-0000-000000000000");
        assert_eq!(&out[53..], b"\x07\0\0\0\x01c\x00\x01d\x02{}\x00");
    }
}
