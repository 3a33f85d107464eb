//! Event ids: those of clients are read, missing ones are made.

use millrace_rows::{Micros, ProjectId};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Parses a uuid in any of the usual spellings: hyphenated or 32 hex digits, any case, also in
/// braces or behind `urn:uuid:`.
#[inline]
pub fn parse(text: &[u8]) -> Option<Uuid> {
    match Uuid::try_parse_ascii(text) {
        Ok(uuid) => Some(uuid),
        Err(_) => parse_rare(text),
    }
}

/// Parses the spellings that the uuid crate lacks: 32 digits in braces, and `URN:UUID:` in
/// capitals.
#[cold]
fn parse_rare(text: &[u8]) -> Option<Uuid> {
    let in_braces = text
        .strip_prefix(b"{")
        .and_then(|rest| rest.strip_suffix(b"}"));
    let inner = match (in_braces, text.split_at_checked(9)) {
        (Some(inner), _) => inner,
        (None, Some((prefix, rest))) if prefix.eq_ignore_ascii_case(b"urn:uuid:") => rest,
        _ => return None,
    };
    Uuid::try_parse_ascii(inner)
        .ok()
        .filter(|_| matches!(inner.len(), 32 | 36))
}

/// Makes a version 7 uuid for an event that came without: the received time, then the event's index
/// so that a request's events sort as sent, then a hash of both with the request's id. Parsing a
/// request again gives the same ids.
#[inline]
pub fn v7(received_at: Micros, request_id: Uuid, index: u32) -> Uuid {
    let hash = xxh3_64_with_seed(request_id.as_bytes(), u64::from(index));
    let millis = u64::try_from(received_at.millis()).unwrap_or_default();
    let high = millis << 16 | 0x7000 | u64::from(index & 0x0fff);
    // Two bits say what sort of uuid it is.
    let low = hash & (u64::MAX >> 2) | 1 << 63;
    Uuid::from_u64_pair(high, low)
}

/// Fields by which a historical event without a uuid is recognised.
pub struct Identity<'a> {
    pub project_id: ProjectId,
    pub event: &'a [u8],
    pub distinct_id: &'a [u8],
    pub timestamp: &'a [u8],
    pub properties: &'a [u8],
}

/// Namespace of our version 5 uuids: part of what is stored, never to be changed.
const NAMESPACE: Uuid = Uuid::from_u128(0x6d69_6c6c_7261_6365_8576_656e_7473_0001);

/// Makes a version 5 uuid over the fields as sent, each behind its length, so that sending the same
/// file twice stores it once.
pub fn v5(identity: &Identity<'_>, scratch: &mut Vec<u8>) -> Uuid {
    scratch.clear();
    scratch.extend_from_slice(&identity.project_id.0.to_be_bytes());
    let fields = [
        identity.event,
        identity.distinct_id,
        identity.timestamp,
        identity.properties,
    ];
    for field in fields {
        scratch.extend_from_slice(&(field.len() as u64).to_be_bytes());
        scratch.extend_from_slice(field);
    }
    Uuid::new_v5(&NAMESPACE, scratch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Builder;

    #[test]
    fn every_spelling_names_the_same_uuid() {
        let uuid = Uuid::from_u128(0x0191_f99b_b499_70c4_9505_90a4_7f19_f05a);
        let table = [
            "0191f99b-b499-70c4-9505-90a47f19f05a",
            "0191F99B-B499-70C4-9505-90A47F19F05A",
            "0191f99bb49970c4950590a47f19f05a",
            "{0191f99b-b499-70c4-9505-90a47f19f05a}",
            "{0191f99bb49970c4950590a47f19f05a}",
            "urn:uuid:0191f99b-b499-70c4-9505-90a47f19f05a",
            "URN:UUID:0191f99b-b499-70c4-9505-90a47f19f05a",
            "urn:uuid:0191f99bb49970c4950590a47f19f05a",
        ];
        for text in table {
            assert_eq!(parse(text.as_bytes()), Some(uuid), "{text}");
        }
    }

    #[test]
    fn a_malformed_uuid_is_refused() {
        let table = [
            "",
            "x",
            "0191f99b-b499-70c4-9505-90a47f19f05",
            "0191f99b-b499-70c4-9505-90a47f19f05aa",
            "0191f99b-b499-70c4-9505-90a47f19f05g",
            "{0191f99b-b499-70c4-9505-90a47f19f05a",
            "{{0191f99b-b499-70c4-9505-90a47f19f05a}}",
            "{urn:uuid:0191f99b-b499-70c4-9505-90a47f19f05a}",
            "urn:uuid:",
            "ü191f99b-b499-70c4-9505-90a47f19f05a",
        ];
        for text in table {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_version_7_uuid_holds_the_time_and_sorts_by_index() {
        let at = Micros(1_795_189_098_000_123);
        let ids: Vec<Uuid> = (0..4_096).map(|index| v7(at, Uuid::max(), index)).collect();
        assert!(ids.is_sorted());
        for id in &ids {
            assert_eq!(id.get_version_num(), 7);
            assert_eq!(id.get_variant(), uuid::Variant::RFC4122);
            assert_eq!(id.as_u128() >> 80, 1_795_189_098_000);
        }
        let counter_random = [0x13, 0x88].into_iter();
        let hash = xxh3_64_with_seed(Uuid::max().as_bytes(), 0x1388).to_be_bytes();
        let bytes: Vec<u8> = counter_random.chain(hash).collect();
        let same = Builder::from_unix_timestamp_millis(
            1_795_189_098_000,
            bytes.as_slice().try_into().unwrap(),
        );
        assert_eq!(v7(at, Uuid::max(), 0x1388), same.into_uuid());
        assert_ne!(v7(at, Uuid::nil(), 0), v7(at, Uuid::max(), 0));
    }

    #[test]
    fn a_version_5_uuid_depends_on_every_field_and_on_nothing_else() {
        let base = Identity {
            project_id: ProjectId(1),
            event: b"e",
            distinct_id: b"d",
            timestamp: b"t",
            properties: b"{}",
        };
        let mut scratch = Vec::new();
        let id = v5(&base, &mut scratch);
        assert_eq!(id, v5(&base, &mut scratch));
        assert_eq!(id.get_version_num(), 5);
        let others = [
            Identity {
                project_id: ProjectId(2),
                ..base
            },
            Identity {
                event: b"ed",
                distinct_id: b"",
                ..base
            },
            Identity {
                distinct_id: b"x",
                ..base
            },
            Identity {
                timestamp: b"u",
                ..base
            },
            Identity {
                properties: b"{ }",
                ..base
            },
        ];
        for other in &others {
            assert_ne!(id, v5(other, &mut scratch));
        }
    }
}
