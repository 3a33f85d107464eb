//! Size of the properties that an event sets, as a person or group keeps them.

use millrace_rows::{PERSON_PROPERTIES_BYTES_MAX, PROPERTY_BYTES_BESIDE};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::fmt;

/// Bytes of JSON in which there are never too many properties, as the shortest member, `"":1,` of
/// five bytes, counts 81.
const FITTING_BYTES: usize = PERSON_PROPERTIES_BYTES_MAX / 17;

/// Returns true if objects, known to be JSON or empty, have more than a person or group may ever
/// have. A name that an object has twice counts twice.
#[inline]
pub fn is_too_large(objects: [&[u8]; 2]) -> bool {
    let bytes: usize = objects.iter().map(|object| object.len()).sum();
    bytes > FITTING_BYTES && counted(objects) > PERSON_PROPERTIES_BYTES_MAX
}

/// Bytes that the members of objects count. As few updates are that long, they are read once more.
#[cold]
fn counted(objects: [&[u8]; 2]) -> usize {
    let of_object = |object: &[u8]| -> usize {
        let object = std::str::from_utf8(object).unwrap_or_default();
        let mut input = serde_json::Deserializer::from_str(object);
        // Fails where there is no object.
        input.deserialize_map(SizeVisitor).unwrap_or_default()
    };
    objects.into_iter().map(of_object).sum()
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<usize, A::Error> {
        let mut bytes = 0;
        while let Some((NameLen(name_bytes), value)) = map.next_entry::<NameLen, &RawValue>()? {
            bytes += name_bytes + PROPERTY_BYTES_BESIDE + value.get().len();
        }
        Ok(bytes)
    }
}

/// Length of a property's name, which may be no text.
struct NameLen(usize);

impl<'de> Deserialize<'de> for NameLen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(NameLenVisitor)
    }
}

struct NameLenVisitor;

impl Visitor<'_> for NameLenVisitor {
    type Value = NameLen;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_bytes<E>(self, name: &[u8]) -> Result<NameLen, E> {
        Ok(NameLen(name.len()))
    }
}
