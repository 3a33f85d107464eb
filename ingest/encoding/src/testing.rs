//! The way of a body through a server, without its threads and its catalog: for what is fuzzed and counted.

use crate::{Expansion, Hints, Room, UnwrapError, Whole, keys_in};

/// A body as a server decodes it.
#[derive(Debug)]
pub struct Decoded {
    /// The JSON, unless what was sent is just that.
    pub json: Result<Option<Whole>, UnwrapError>,
    /// Whether a key that is known was found on the way.
    pub is_key_known: bool,
}

/// Decodes what was sent, as often and as far as a server does. `key` is the one that the head names; `decode` is
/// given the room there is.
#[must_use]
pub fn decode(
    sent: &[u8],
    hints: Hints,
    key: Option<&str>,
    expansion: Expansion,
    decode: impl Fn(Room) -> Result<Option<Whole>, UnwrapError>,
    is_known: impl Fn(&str) -> bool,
) -> Decoded {
    let mut is_key_known = key.is_some_and(&is_known);
    let room = expansion.room(is_key_known);
    let tried = if hints.may_take_long(sent.len()) {
        room
    } else {
        room.on_core()
    };
    let mut json = decode(tried);
    if let Err(UnwrapError::TooLarge(encoded)) = &json {
        let encoding = encoded.encoding;
        is_key_known |= encoded.keys.iter().any(|key| is_known(key));
        if let Some(bytes_max) = expansion.searched_bytes_max(encoding)
            && bytes_max > tried.of(encoding)
            && key.is_none()
            && !is_key_known
        {
            let bytes = encoded.inner.as_deref().unwrap_or(sent);
            let keys = keys_in(encoding, bytes, bytes_max);
            is_key_known = keys.iter().any(|key| is_known(key));
        }
        let room = expansion.room(is_key_known);
        if room.of(encoding) > tried.of(encoding) {
            json = decode(room);
        }
    }
    Decoded { json, is_key_known }
}
