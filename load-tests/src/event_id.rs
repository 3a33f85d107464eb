//! Event ids that encode an event's origin.
//!
//! A load generator with millions of acknowledged events cannot keep a list of random ids. These
//! ids are version 8 uuids whose bits are the run, the connection, the batch on that connection and
//! the event's index in the batch:
//!
//! ```text
//! rrrrrrrr-cccc-8000-80bb-bbbbbbiiiiii
//! run      conn          batch   index
//! ```
//!
//! An acknowledged batch is therefore three numbers, and ClickHouse can group rows by batch with
//! shifts. Only the batch changes from one request of a connection to the next: nine bytes per
//! event.

use uuid::Uuid;

/// Length of a uuid's text in bytes.
pub const TEXT_BYTES: usize = 36;
/// Position of the batch in the text; its second half follows a hyphen.
pub const BATCH_TEXT: std::ops::Range<usize> = 21..30;
/// Position of the connection in the text.
pub const CONNECTION_TEXT: std::ops::Range<usize> = 9..13;
/// Highest number of events in a batch that an id can encode.
pub const BATCH_EVENTS_MAX: u32 = 1 << 24;

/// Bits of version 8 and of RFC 9562's variant; every other fixed bit is 0.
const FIXED_BITS: u128 = (0x8000 << 64) | (0x80 << 56);

/// Origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventId {
    /// Id of the run; drawn at random.
    pub run: u32,
    /// Number of the connection within the run, from 0.
    pub connection: u16,
    /// Number of the batch on that connection, from 0.
    pub batch: u32,
    /// Index of the event in the batch, from 0; 24 bits.
    pub index: u32,
}

impl EventId {
    /// Encodes the id as a uuid; an index above 24 bits is truncated.
    #[must_use]
    pub fn to_uuid(self) -> Uuid {
        Uuid::from_u128(
            u128::from(self.run) << 96
                | u128::from(self.connection) << 80
                | FIXED_BITS
                | u128::from(self.batch) << 24
                | u128::from(self.index & (BATCH_EVENTS_MAX - 1)),
        )
    }

    /// Decodes a uuid; `None` if it is not an id of this generator.
    #[must_use]
    pub fn from_uuid(uuid: Uuid) -> Option<Self> {
        let bits = uuid.as_u128();
        let id = Self {
            run: (bits >> 96) as u32,
            connection: (bits >> 80) as u16,
            batch: (bits >> 24) as u32,
            index: (bits as u32) & (BATCH_EVENTS_MAX - 1),
        };
        (id.to_uuid() == uuid).then_some(id)
    }
}

/// Text of the batch in a uuid, see [`BATCH_TEXT`].
#[must_use]
pub fn batch_text(batch: u32) -> [u8; 9] {
    let [a, b, c, d] = batch.to_be_bytes().map(hex);
    [a[0], a[1], b'-', b[0], b[1], c[0], c[1], d[0], d[1]]
}

/// Text of the connection in a uuid, see [`CONNECTION_TEXT`].
#[must_use]
pub fn connection_text(connection: u16) -> [u8; 4] {
    let [a, b] = connection.to_be_bytes().map(hex);
    [a[0], a[1], b[0], b[1]]
}

/// Two lower-case hexadecimal digits.
const fn hex(byte: u8) -> [u8; 2] {
    [hex_digit(byte >> 4), hex_digit(byte & 15)]
}

const fn hex_digit(nibble: u8) -> u8 {
    if nibble < 10 {
        b'0' + nibble
    } else {
        b'a' + nibble - 10
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_id() -> impl Strategy<Value = EventId> {
        (
            any::<u32>(),
            any::<u16>(),
            any::<u32>(),
            0..BATCH_EVENTS_MAX,
        )
            .prop_map(|(run, connection, batch, index)| EventId {
                run,
                connection,
                batch,
                index,
            })
    }

    proptest! {
        #[test]
        fn an_id_survives_encoding_as_a_uuid(id in any_id()) {
            prop_assert_eq!(EventId::from_uuid(id.to_uuid()), Some(id));
        }

        #[test]
        fn an_event_ids_uuid_has_version_8_and_the_variant(id in any_id()) {
            prop_assert_eq!(id.to_uuid().get_version_num(), 8);
            prop_assert_eq!(id.to_uuid().get_variant(), uuid::Variant::RFC4122);
        }

        #[test]
        fn batch_and_connection_are_at_their_patch_positions(id in any_id()) {
            let text = id.to_uuid().to_string();
            prop_assert_eq!(&text.as_bytes()[BATCH_TEXT], &batch_text(id.batch));
            prop_assert_eq!(&text.as_bytes()[CONNECTION_TEXT], &connection_text(id.connection));
        }

        #[test]
        fn a_version_4_uuid_is_not_an_event_id(bits in any::<u128>()) {
            let uuid = uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid();
            prop_assert_eq!(EventId::from_uuid(uuid), None);
        }
    }

    #[test]
    fn the_layout_is_the_documented_one() {
        let id = EventId {
            run: 0x1a2b_3c4d,
            connection: 0x0102,
            batch: 0x0304_0506,
            index: 0x0007_0809,
        };
        assert_eq!(
            id.to_uuid().to_string(),
            "1a2b3c4d-0102-8000-8003-040506070809"
        );
    }
}
