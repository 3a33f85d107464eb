//! Limits of the tries to decode one body, as a server and the search for costly bodies have them.

use crate::testing;
use crate::{BodyDecodeError, DecodeLimits, Encoded, Encoding, Expansion, Hints};
use std::cell::RefCell;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Encoding hints of gzip that the head names.
const GZIP: Hints = Hints {
    content_encoding: Encoding::Gzip,
    compression: Encoding::Identity,
    form: false,
};
const FORM: Hints = Hints {
    content_encoding: Encoding::Identity,
    compression: Encoding::Identity,
    form: true,
};

/// Body of gzip that decodes to more than anything, and what is known of its key.
struct Endless {
    sent_bytes: usize,
    /// Size that its trailer gives.
    said: usize,
    hints: Hints,
    /// Key in the head.
    named: Option<&'static str>,
    /// Key in its beginning.
    found: Option<&'static str>,
}

impl Endless {
    /// Limits of all tries to decode it.
    fn tries(&self) -> Vec<usize> {
        let mut sent = vec![0; self.sent_bytes];
        let end = u32::try_from(self.said).unwrap().to_le_bytes();
        sent[self.sent_bytes - 4..].copy_from_slice(&end);
        let tried = RefCell::new(Vec::new());
        let decode = |limits: DecodeLimits| {
            tried.borrow_mut().push(limits.bytes_max);
            Err(BodyDecodeError::TooLarge(Encoded {
                encoding: Encoding::Gzip,
                inner: None,
                keys: self.found.into_iter().map(str::to_owned).collect(),
            }))
        };
        let expansion = Expansion::of(self.sent_bytes, 100 * MIB);
        let is_known = |key: &str| key == "known";
        let decoded = testing::decode(&sent, self.hints, self.named, expansion, decode, is_known);
        assert!(decoded.json.is_err());
        tried.into_inner()
    }
}

/// Regression: a core decoded no more than it parses, and a body of more than 13 KiB of blocks was
/// inflated five times before it was refused.
#[test]
fn a_small_body_is_tried_on_a_core_and_again_only_with_a_known_key() {
    let (known, unknown) = (Some("known"), Some("nobody's"));
    // Sent, hints, key in the head, key in the body, tries.
    for (sent_bytes, hints, named, found, expected) in [
        (64 * KIB, GZIP, None, None, vec![2_560 * KIB]),
        (64 * KIB, GZIP, None, unknown, vec![2_560 * KIB]),
        (64 * KIB, GZIP, unknown, known, vec![2_560 * KIB]),
        (20 * KIB, GZIP, None, None, vec![800 * KIB]),
        (20 * KIB, FORM, None, None, vec![800 * KIB]),
        (KIB, GZIP, None, None, vec![40 * KIB]),
        (64 * KIB, GZIP, known, None, vec![2_560 * KIB, 12_800 * KIB]),
        (64 * KIB, GZIP, None, known, vec![2_560 * KIB, 12_800 * KIB]),
        (64 * KIB, FORM, known, None, vec![2_560 * KIB, 12_800 * KIB]),
        (KIB, GZIP, known, None, vec![512 * KIB, 4 * MIB]),
        (KIB, GZIP, None, known, vec![40 * KIB, 4 * MIB]),
    ] {
        let body = Endless {
            sent_bytes,
            said: 0,
            hints,
            named,
            found,
        };
        assert_eq!(
            body.tries(),
            expected,
            "{sent_bytes} {hints:?} {named:?} {found:?}"
        );
    }
}

#[test]
fn a_longer_body_is_tried_at_its_likely_size_and_then_at_all_that_it_may_be() {
    let (known, unknown) = (Some("known"), Some("nobody's"));
    let (nobodys, likely, all) = (16 * MIB, 40 * MIB, 100 * MIB);
    // Size that it says, hints, key in the head, key in the body, tries.
    for (said, hints, named, found, expected) in [
        (0, GZIP, known, None, vec![likely, all]),
        (0, GZIP, None, known, vec![nobodys, likely, all]),
        (12 * MIB, GZIP, known, None, vec![12 * MIB + 1, all]),
        (60 * MIB, GZIP, known, None, vec![all]),
        (0, FORM, known, None, vec![all]),
        (0, GZIP, None, unknown, vec![nobodys]),
        // As in a server, the key in the head counts alone.
        (0, GZIP, unknown, known, vec![nobodys]),
    ] {
        let body = Endless {
            sent_bytes: MIB,
            said,
            hints,
            named,
            found,
        };
        assert_eq!(
            body.tries(),
            expected,
            "{said} {hints:?} {named:?} {found:?}"
        );
    }
}
