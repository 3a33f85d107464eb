//! Limits of the tries to decode one body, as a server and the search for dear bodies have them.

use crate::testing;
use crate::{BodyDecodeError, DecodeLimits, Encoded, Encoding, Expansion, Hints};
use std::cell::RefCell;

const MIB: usize = 1 << 20;

/// Limits of all tries of 1 MiB of gzip that decodes to more than anything; `said` is the size that
/// it names, and `found` a key in its beginning.
fn tries(said: usize, hints: Hints, named: Option<&str>, found: Option<&str>) -> Vec<usize> {
    let mut sent = vec![0; MIB];
    let end = u32::try_from(said).unwrap().to_le_bytes();
    sent[MIB - 4..].copy_from_slice(&end);
    let tried = RefCell::new(Vec::new());
    let decode = |limits: DecodeLimits| {
        tried.borrow_mut().push(limits.bytes_max);
        Err(BodyDecodeError::TooLarge(Encoded {
            encoding: Encoding::Gzip,
            inner: None,
            keys: found.into_iter().map(str::to_owned).collect(),
        }))
    };
    let expansion = Expansion::of(MIB, 100 * MIB);
    let decoded = testing::decode(&sent, hints, named, expansion, decode, |key| key == "known");
    assert!(decoded.json.is_err());
    tried.into_inner()
}

#[test]
fn a_body_is_tried_on_a_core_then_at_its_likely_size_and_then_at_all_that_it_may_be() {
    let gzip = Hints {
        content_encoding: Encoding::Gzip,
        ..Hints::default()
    };
    let form = Hints {
        form: true,
        ..Hints::default()
    };
    let (known, unknown) = (Some("known"), Some("nobody's"));
    let (core, likely, all) = (4 * MIB, 40 * MIB, 100 * MIB);
    // Size that it says, hints, key in the head, key in the body, tries.
    for (said, hints, named, found, expected) in [
        (0, gzip, known, None, vec![core, likely, all]),
        (0, gzip, None, known, vec![core, likely, all]),
        (12 * MIB, gzip, known, None, vec![core, 12 * MIB + 1, all]),
        (60 * MIB, gzip, known, None, vec![core, all]),
        (0, form, known, None, vec![core, all]),
        (0, gzip, None, unknown, vec![core, 16 * MIB]),
        // As in a server, the key in the head counts alone.
        (0, gzip, unknown, known, vec![core, 16 * MIB]),
    ] {
        let tries = tries(said, hints, named, found);
        assert_eq!(tries, expected, "{said} {hints:?} {named:?} {found:?}");
    }
}
