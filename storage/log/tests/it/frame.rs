//! Invalid frames: refused when they are written, and when they are read although their checksums
//! fit.

use crate::support::{append, borrowed, open, sections};
use millrace_log::testing::MemoryFs;
use millrace_log::testing::bytes::{decode_frame, encode_frame, reseal_frame};
use millrace_log::{AppendError, Section, SectionHeader};

/// A frame of two sections, the second without a byte of blocks.
fn frame() -> Vec<u8> {
    let mut owned = sections(1, 100);
    owned.truncate(1);
    owned.push((SectionHeader::default(), Vec::new()));
    encode_frame(&borrowed(&owned), 7, 1).unwrap()
}

#[test]
fn a_frame_whose_headers_contradict_its_contents_is_refused() {
    let whole = frame();
    assert_eq!(decode_frame(&whole).unwrap().0.sections.len(), 2);
    let one_section = {
        let mut bytes = whole.clone();
        bytes[6] = 1;
        bytes
    };
    let more_payload = {
        let mut bytes = whole.clone();
        let before_trailer = bytes.len() - 16;
        bytes.splice(before_trailer..before_trailer, [0; 8]);
        bytes[32] += 8;
        bytes
    };
    let cases = [
        ("a section too few", one_section),
        ("payload of no section", more_payload),
    ];
    for (name, mut bytes) in cases {
        reseal_frame(&mut bytes);
        let refused = decode_frame(&bytes).unwrap_err();
        assert_eq!(
            refused, "the section headers contradict themselves",
            "{name}"
        );
    }
}

#[test]
fn an_invalid_frame_is_refused() {
    let (mut log, _) = open(&MemoryFs::new());
    let whole = sections(1, 100).remove(0);
    let (header, blocks) = &whole;
    let mut too_large = blocks.clone();
    too_large[17..21].copy_from_slice(&u32::MAX.to_le_bytes());
    let cases = [
        ("no section", None),
        ("blocks that are none", Some(vec![7; 100])),
        ("a cut block", Some(blocks[..blocks.len() - 1].to_vec())),
        ("a cut head", Some([&blocks[..], &blocks[..20]].concat())),
        ("a size that no block has", Some(too_large)),
    ];
    for (name, blocks) in cases {
        let sections: Vec<_> = blocks
            .iter()
            .map(|blocks| Section { header, blocks })
            .collect();
        let refused = log.append(&sections).unwrap_err();
        assert!(matches!(refused, AppendError::Invalid(_)), "{name}");
    }
    append(&mut log, 1, 10);
}
