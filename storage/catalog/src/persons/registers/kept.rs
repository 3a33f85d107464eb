//! The text that properties are kept as. Most keys of a person were written by few events, so each
//! event is named once:
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
struct Read<'a> {
    #[serde(rename = "s")]
    stamps: Vec<(i64, Uuid)>,
    #[serde(rename = "w", borrow)]
    writes: Writes<String, KeptWrite<'a>>,
    #[serde(rename = "o", borrow)]
    onces: Writes<String, KeptWrite<'a>>,
}

#[derive(Serialize)]
struct Written<'a> {
    #[serde(rename = "s")]
    stamps: Vec<(i64, Uuid)>,
    #[serde(rename = "w", skip_serializing_if = "BTreeMap::is_empty")]
    writes: Writes<&'a str, KeptWrite<'a>>,
    #[serde(rename = "o", skip_serializing_if = "BTreeMap::is_empty")]
    onces: Writes<&'a str, KeptWrite<'a>>,
}

struct KeptWrite<'a> {
    /// Which of the stamps.
    stamp: usize,
    value: Option<&'a RawValue>,
}

impl Registers {
    /// As it was kept.
    pub(in super::super) fn parse(text: &str) -> Result<Self, serde_json::Error> {
        let read: Read<'_> = serde_json::from_str(text)?;
        let write = |kept: &KeptWrite<'_>| {
            let found = read.stamps.get(kept.stamp);
            let (at, by) = *found.ok_or_else(|| serde_json::Error::custom("an unknown event"))?;
            Ok::<_, serde_json::Error>(Write::new(Stamp { at, by }, kept.value))
        };
        let mut registers: BTreeMap<String, Register> = BTreeMap::new();
        for (key, kept) in read.writes {
            registers.entry(key).or_default().write = Some(write(&kept)?);
        }
        for (key, kept) in read.onces {
            registers.entry(key).or_default().once = Some(write(&kept)?);
        }
        Ok(Self(registers))
    }

    /// As it is kept.
    pub(in super::super) fn to_text(&self) -> String {
        let mut numbers: BTreeMap<Stamp, usize> = BTreeMap::new();
        let mut written = Written {
            stamps: Vec::new(),
            writes: BTreeMap::new(),
            onces: BTreeMap::new(),
        };
        for (key, Register { write, once }) in &self.0 {
            for (of, into) in [(write, &mut written.writes), (once, &mut written.onces)] {
                let Some(write) = of else { continue };
                let stamp = *numbers.entry(write.stamp()).or_insert_with(|| {
                    written.stamps.push((write.at, write.by));
                    written.stamps.len() - 1
                });
                let value = write.value.as_deref();
                into.insert(key, KeptWrite { stamp, value });
            }
        }
        // Keys are texts, so that this cannot fail.
        serde_json::to_string(&written).unwrap_or_default()
    }
}

impl Serialize for KeptWrite<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.value {
            Some(value) => (self.stamp, value).serialize(serializer),
            None => [self.stamp].serialize(serializer),
        }
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for KeptWrite<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(KeptWriteVisitor)
    }
}

struct KeptWriteVisitor;

impl<'de> Visitor<'de> for KeptWriteVisitor {
    type Value = KeptWrite<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the number of an event, and perhaps a value")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let stamp = seq.next_element()?;
        Ok(KeptWrite {
            stamp: stamp.ok_or_else(|| A::Error::invalid_length(0, &self))?,
            value: seq.next_element()?,
        })
    }
}
