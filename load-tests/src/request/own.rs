//! Bodies that a user wrote, with the positions of their placeholders.

use super::body::{Body, PatchOffsets};
use crate::event_id::EventId;
use crate::keys::Keys;
use crate::own_body::{OwnBody, Piece};
use crate::wall_clock::seconds_text;

/// Fills the placeholders of a body for one connection.
pub(super) fn fill(own: &OwnBody, keys: &Keys, run: u32, connection: u16) -> Body {
    let mut bytes = Vec::new();
    let mut offsets = PatchOffsets::default();
    let mut index = 0;
    for piece in own.pieces() {
        let at = bytes.len();
        match piece {
            Piece::Bytes(piece) => bytes.extend_from_slice(piece),
            Piece::Uuid => {
                let id = EventId {
                    run,
                    connection,
                    batch: 0,
                    index,
                };
                index += 1;
                bytes.extend_from_slice(id.to_uuid().to_string().as_bytes());
                offsets.uuids_at.push(at);
            }
            Piece::Time => {
                bytes.extend_from_slice(&seconds_text(0));
                bytes.extend_from_slice(b".000Z");
                offsets.times_at.push(at);
            }
            Piece::Key => {
                bytes.extend_from_slice(keys.assign(1, 0, 0).key.as_bytes());
                offsets.keys_at.push(at..bytes.len());
            }
        }
    }
    Body {
        bytes,
        offsets,
        events: own.events,
    }
}
