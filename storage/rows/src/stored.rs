//! Rows read back from their encoding, as views of its bytes, for those that look at rows on their
//! way to the log.
//!
//! The bytes may end within a row. Such a beginning is not taken for a row, except where only the
//! raw text of a rejected event is cut off, which is the last of its texts.

use crate::{Micros, ProjectId};
use uuid::Uuid;

/// Row of `events`, as a view of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent<'a> {
    /// Id of the event.
    pub uuid: Uuid,
    /// The event's name.
    pub event: &'a [u8],
    /// JSON text of the properties.
    pub properties: &'a [u8],
    /// Time of the event.
    pub timestamp: Micros,
    /// Project of the event.
    pub team_id: ProjectId,
    /// Distinct id of the event's person.
    pub distinct_id: &'a [u8],
    /// Time of receipt.
    pub created_at: Micros,
    /// True if the client sent the event as part of a historical migration.
    pub historical_migration: bool,
    /// Bytes of the encoded row.
    pub row_bytes: usize,
}

/// Row of `rejected_events`, as a view of its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredRejected<'a> {
    /// Project of the event.
    pub team_id: ProjectId,
    /// Time of receipt.
    pub received_at: Micros,
    /// Index of the event in its request, from 0.
    pub index: u32,
    /// Code of the rejection.
    pub code: &'a [u8],
    /// Part of the event that is at fault.
    pub attr: &'a [u8],
    /// Reason of the rejection, in a sentence.
    pub detail: &'a [u8],
    /// The event's JSON as it was sent, as far as it is there.
    pub raw: &'a [u8],
    /// Bytes of the whole JSON.
    pub raw_bytes: usize,
    /// True if the client sent the event as part of a historical migration; false if that is cut
    /// off.
    pub historical_migration: bool,
}

impl<'a> StoredEvent<'a> {
    /// Takes the first row off the encoding of some; `None` if none is complete.
    #[must_use]
    pub fn take(rows: &mut &'a [u8]) -> Option<Self> {
        let mut input = Input(rows);
        let mut row = Self {
            uuid: input.uuid()?,
            event: input.text()?,
            properties: input.text()?,
            timestamp: Micros(input.number()?),
            team_id: ProjectId(input.number()?),
            distinct_id: input.text()?,
            created_at: Micros(input.number()?),
            historical_migration: input.array::<1>()? == [1],
            row_bytes: 0,
        };
        row.row_bytes = rows.len() - input.0.len();
        *rows = input.0;
        Some(row)
    }
}

impl<'a> StoredRejected<'a> {
    /// Takes the first row off the encoding of some; `None` if it is cut off before its raw text.
    #[must_use]
    pub fn take(rows: &mut &'a [u8]) -> Option<Self> {
        let mut input = Input(rows);
        let team_id = ProjectId(input.number()?);
        let received_at = Micros(input.number()?);
        let _request_id = input.text()?;
        let index = u32::from_le_bytes(input.array()?);
        let (code, attr, detail) = (input.text()?, input.text()?, input.text()?);
        let raw_bytes = input.length()?;
        let raw = input.bytes_up_to(raw_bytes);
        let historical_migration = input.array::<1>() == Some([1]);
        *rows = input.0;
        Some(Self {
            team_id,
            received_at,
            index,
            code,
            attr,
            detail,
            raw,
            raw_bytes,
            historical_migration,
        })
    }
}

/// Bytes that are not read yet.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk::<N>()?;
        self.0 = tail;
        Some(*head)
    }

    fn number(&mut self) -> Option<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn uuid(&mut self) -> Option<Uuid> {
        let high = self.array().map(u64::from_le_bytes)?;
        let low = self.array().map(u64::from_le_bytes)?;
        Some(Uuid::from_u64_pair(high, low))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.length()?;
        let (head, tail) = self.0.split_at_checked(length)?;
        self.0 = tail;
        Some(head)
    }

    /// Bytes of a text, or all that is left if that is less.
    fn bytes_up_to(&mut self, length: usize) -> &'a [u8] {
        let (head, tail) = match self.0.split_at_checked(length) {
            Some(split) => split,
            None => (self.0, <&[u8]>::default()),
        };
        self.0 = tail;
        head
    }

    fn length(&mut self) -> Option<usize> {
        let mut length = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, tail) = self.0.split_first()?;
            self.0 = tail;
            length |= u64::from(*byte & 0x7f) << shift;
            if *byte & 0x80 == 0 {
                return usize::try_from(length).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EventRow, RejectedRow};

    fn events(names: &[&str]) -> Vec<u8> {
        let mut rows = Vec::new();
        for name in names {
            let row = EventRow {
                uuid: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
                event: name.as_bytes(),
                properties: &[b"{\"a\":", b"1}"],
                timestamp: Micros(-1),
                team_id: ProjectId(2),
                distinct_id: b"d",
                created_at: Micros(3),
                historical_migration: true,
            };
            row.append_to(&mut rows);
        }
        rows
    }

    fn rejected(raw: &str) -> Vec<u8> {
        let mut rows = Vec::new();
        let row = RejectedRow {
            team_id: ProjectId(2),
            received_at: Micros(3),
            request_id: Uuid::nil(),
            index: 7,
            code: "c",
            attr: "",
            detail: "d",
            raw: raw.as_bytes(),
            historical_migration: true,
        };
        row.append_to(&mut rows);
        rows
    }

    #[test]
    fn rows_are_read_as_they_were_written() {
        let long = "n".repeat(300);
        let bytes = events(&["e", &long]);
        let mut rest = bytes.as_slice();
        let first = StoredEvent::take(&mut rest).unwrap();
        let expected = StoredEvent {
            uuid: Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            event: b"e",
            properties: b"{\"a\":1}",
            timestamp: Micros(-1),
            team_id: ProjectId(2),
            distinct_id: b"d",
            created_at: Micros(3),
            historical_migration: true,
            row_bytes: events(&["e"]).len(),
        };
        assert_eq!(first, expected);
        let second = StoredEvent::take(&mut rest).unwrap();
        assert_eq!(second.event, long.as_bytes());
        assert_eq!(rest, b"");
        let bytes = rejected("{}");
        let mut rest = bytes.as_slice();
        let row = StoredRejected::take(&mut rest).unwrap();
        assert_eq!((row.team_id, row.received_at), (ProjectId(2), Micros(3)));
        assert_eq!((row.index, row.code, row.attr), (7, &b"c"[..], &b""[..]));
        assert_eq!((row.detail, row.raw), (&b"d"[..], &b"{}"[..]));
        assert_eq!((row.raw_bytes, row.historical_migration), (2, true));
        assert_eq!(rest, b"");
    }

    #[test]
    fn an_event_that_is_cut_off_anywhere_is_no_row() {
        let bytes = events(&["event"]);
        for end in 0..bytes.len() {
            let mut rest = &bytes[..end];
            assert_eq!(StoredEvent::take(&mut rest), None, "{end}");
            assert_eq!(rest.len(), end, "nothing is taken");
        }
    }

    #[test]
    fn only_the_raw_text_of_a_rejected_event_may_be_cut_off() {
        let bytes = rejected("0123456789");
        let raw_from = bytes.len() - 11;
        for end in 0..bytes.len() {
            let mut rest = &bytes[..end];
            let row = StoredRejected::take(&mut rest);
            let raw = row.map(|row| (row.raw.len(), row.raw_bytes));
            let expected = end.checked_sub(raw_from).map(|there| (there, 10));
            assert_eq!(raw, expected, "{end}");
        }
    }

    #[test]
    fn a_length_without_an_end_is_no_length() {
        let mut bytes = vec![0; 16];
        bytes.extend([0xff; 20]);
        assert_eq!(StoredEvent::take(&mut bytes.as_slice()), None);
    }
}
