//! Encoding of registers as text. Most keys of a person were written by few events, so each event
//! is named once:
//!
//! `{"s":[[<microseconds>,"<uuid>"],…],"w":{"<key>":[<event>,<value>],…},"o":{…}}`
//!
//! `s` has the events, to which the numbers in `w` (writes) and `o` (`$set_once`) lead, from 0. A
//! write without a value is a tombstone.

use super::{Register, Registers, Stamp, Write};
use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::fmt;
use uuid::Uuid;

type Writes<K, W> = BTreeMap<K, W>;

#[derive(Default, Deserialize)]
#[serde(default)]
struct Decoded<'a> {
    #[serde(rename = "s")]
    stamps: Vec<(i64, Uuid)>,
    #[serde(rename = "w", borrow)]
    writes: Writes<String, EncodedWrite<'a>>,
    #[serde(rename = "o", borrow)]
    onces: Writes<String, EncodedWrite<'a>>,
}

#[derive(Serialize)]
struct Encoded<'a> {
    #[serde(rename = "s")]
    stamps: Vec<(i64, Uuid)>,
    #[serde(rename = "w", skip_serializing_if = "BTreeMap::is_empty")]
    writes: Writes<&'a str, EncodedWrite<'a>>,
    #[serde(rename = "o", skip_serializing_if = "BTreeMap::is_empty")]
    onces: Writes<&'a str, EncodedWrite<'a>>,
}

struct EncodedWrite<'a> {
    /// Index into the stamps.
    stamp: usize,
    value: Option<&'a RawValue>,
}

impl Registers {
    /// Parses a stored text.
    pub(in super::super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let decoded: Decoded<'_> = serde_json::from_str(text)?;
        let write = |encoded: &EncodedWrite<'_>| {
            let found = decoded.stamps.get(encoded.stamp);
            let (at, by) = *found.ok_or_else(|| serde_json::Error::custom("an unknown event"))?;
            Ok::<_, serde_json::Error>(Write::new(Stamp { at, by }, encoded.value))
        };
        let mut registers: BTreeMap<String, Register> = BTreeMap::new();
        for (key, encoded) in decoded.writes {
            registers.entry(key).or_default().write = Some(write(&encoded)?);
        }
        for (key, encoded) in decoded.onces {
            registers.entry(key).or_default().once = Some(write(&encoded)?);
        }
        Ok(Self(registers))
    }

    /// Encodes the registers as text.
    pub(in super::super) fn to_text(&self) -> String {
        let mut numbers: BTreeMap<Stamp, usize> = BTreeMap::new();
        let mut encoded = Encoded {
            stamps: Vec::new(),
            writes: BTreeMap::new(),
            onces: BTreeMap::new(),
        };
        for (key, Register { write, once }) in &self.0 {
            for (of, into) in [(write, &mut encoded.writes), (once, &mut encoded.onces)] {
                let Some(write) = of else { continue };
                let stamp = *numbers.entry(write.stamp()).or_insert_with(|| {
                    encoded.stamps.push((write.at, write.by));
                    encoded.stamps.len() - 1
                });
                let value = write.value.as_deref();
                into.insert(key, EncodedWrite { stamp, value });
            }
        }
        // Keys are texts, so that this cannot fail.
        serde_json::to_string(&encoded).unwrap_or_default()
    }
}

impl Serialize for EncodedWrite<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Some(value) => (self.stamp, value).serialize(serializer),
            None => [self.stamp].serialize(serializer),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for EncodedWrite<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EncodedWriteVisitor)
    }
}

struct EncodedWriteVisitor;

impl<'de> Visitor<'de> for EncodedWriteVisitor {
    type Value = EncodedWrite<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of an event, and perhaps a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let stamp = seq.next_element()?;
        Ok(EncodedWrite {
            stamp: stamp.ok_or_else(|| A::Error::invalid_length(0, &self))?,
            value: seq.next_element()?,
        })
    }
}
