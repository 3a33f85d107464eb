//! Keys by which stored rows are found again.

use crate::Micros;
use uuid::Uuid;

/// Key of a row, by which ClickHouse can be asked whether it is stored: its id, the time of
/// receipt, and its index if the id is not its own.
///
/// The id alone is not enough: a client may send an id again, and a merge may then fold the two
/// rows into the later one. For `rejected_events` the id is the request's, which every row of a
/// request shares. That is enough for a block, which is stored as a whole or not at all; in a part
/// of one, the index in the request tells a row from those of the other parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RowKey {
    /// `uuid` of an event, `request_id` of a rejected one.
    pub id: Uuid,
    /// `created_at` of an event, `received_at` of a rejected one.
    pub received_at: Micros,
    /// `index` of a rejected event, where it is known: the log does not keep it.
    pub index: Option<u32>,
}

impl RowKey {
    /// Bytes of an encoded key.
    pub const BYTES: usize = 24;

    /// The key as the log stores it: the id, then the time, both big endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (id, at) = bytes.split_at_mut(16);
        id.copy_from_slice(self.id.as_bytes());
        at.copy_from_slice(&self.received_at.0.to_be_bytes());
        bytes
    }

    /// Decodes the bytes of [`RowKey::to_bytes`].
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let (id, at) = bytes.split_at(16);
        let mut id_bytes = [0; 16];
        let mut at_bytes = [0; 8];
        id_bytes.copy_from_slice(id);
        at_bytes.copy_from_slice(at);
        Self {
            id: Uuid::from_bytes(id_bytes),
            received_at: Micros(i64::from_be_bytes(at_bytes)),
            index: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_survives_its_bytes() {
        let key = RowKey {
            id: Uuid::from_u128(0x1234_5678 << 90),
            received_at: Micros(-5),
            index: None,
        };
        assert_eq!(RowKey::from_bytes(key.to_bytes()), key);
    }
}
