//! Segment files: their names and the header each starts with.

use crate::fields::{put, u16_at, u32_at, u64_at};

/// Bytes of a segment's header; frames start here.
pub(crate) const SEGMENT_HEADER_BYTES: u64 = 64;
/// Format version of a segment; no other is read.
pub(crate) const FORMAT_VERSION: u16 = 2;
/// Highest sequence and segment number: at a billion a second it lasts 292 years, and one more
/// never overflows.
pub(crate) const NUMBER_MAX: u64 = u64::MAX / 2;

const MAGIC: u64 = u64::from_le_bytes(*b"MILLRLOG");
const CRC_AT: usize = 60;

/// Header at the start of a segment.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentHeader {
    /// Number of the segment, as in the file's name.
    pub number: u64,
    /// Random number, repeated in every frame: no client can send bytes that pass for a frame when
    /// a recovery looks for the next one behind damage.
    pub salt: u64,
    /// Sequence of the last frame before this segment, 0 if there was none; tells whether the
    /// segment before has lost its end.
    pub sequence_before: u64,
    /// Highest sequence used up before this segment: its frames have higher ones; differs from
    /// `sequence_before` behind a cut, whose sequences are not used again.
    pub sequence_high_water: u64,
    /// The segment before this one; `None` if there was none, or in a log of an earlier program.
    pub before: Option<SegmentBefore>,
}

/// Segment before another, as the header of the later one names it. Its salt is kept there, too, in
/// case its own header is lost.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) struct SegmentBefore {
    pub number: u64,
    pub salt: u64,
}

/// Reason why 64 bytes are not a header that this version reads.
#[derive(Copy, Clone, PartialEq, Eq, Debug)]
pub(crate) enum HeaderError {
    /// Missing or damaged.
    Damaged,
    /// Sound, and of another version.
    Version(u16),
}

impl SegmentHeader {
    /// Bytes of the header, with a checksum.
    pub fn encode(&self) -> [u8; SEGMENT_HEADER_BYTES as usize] {
        let mut out = [0; SEGMENT_HEADER_BYTES as usize];
        put(&mut out, 0, &MAGIC.to_le_bytes());
        put(&mut out, 8, &FORMAT_VERSION.to_le_bytes());
        put(&mut out, 16, &self.number.to_le_bytes());
        put(&mut out, 24, &self.salt.to_le_bytes());
        put(&mut out, 32, &self.sequence_before.to_le_bytes());
        put(&mut out, 40, &self.sequence_high_water.to_le_bytes());
        if let Some(before) = self.before
            && let Ok(distance) = u32::try_from(self.number.saturating_sub(before.number))
        {
            put(&mut out, 48, &before.salt.to_le_bytes());
            put(&mut out, 56, &distance.to_le_bytes());
        }
        let crc = crc32fast::hash(out.get(..CRC_AT).unwrap_or_default());
        put(&mut out, CRC_AT, &crc.to_le_bytes());
        out
    }

    /// Reads the header of the segment with this number.
    pub fn decode(bytes: &[u8], number: u64) -> Result<Self, HeaderError> {
        let covered = bytes.get(..CRC_AT).ok_or(HeaderError::Damaged)?;
        let sound = u64_at(bytes, 0) == Some(MAGIC)
            && u32_at(bytes, CRC_AT) == Some(crc32fast::hash(covered))
            && u64_at(bytes, 16) == Some(number);
        if !sound {
            return Err(HeaderError::Damaged);
        }
        let field = |at| u64_at(bytes, at).ok_or(HeaderError::Damaged);
        let sequence = |at| match field(at)? {
            sequence if sequence > NUMBER_MAX => Err(HeaderError::Damaged),
            sequence => Ok(sequence),
        };
        match u16_at(bytes, 8) {
            Some(FORMAT_VERSION) => Ok(Self {
                number,
                salt: field(24)?,
                sequence_before: sequence(32)?,
                sequence_high_water: sequence(40)?,
                before: match u32_at(bytes, 56) {
                    None | Some(0) => None,
                    Some(distance) => Some(SegmentBefore {
                        number: number.saturating_sub(u64::from(distance)),
                        salt: field(48)?,
                    }),
                },
            }),
            Some(version) => Err(HeaderError::Version(version)),
            None => Err(HeaderError::Damaged),
        }
    }
}

/// File name of a segment: 20 digits, so that names sort like numbers.
pub(crate) fn file_name(number: u64) -> String {
    format!("{number:020}.log")
}

/// Parses the number in a segment's file name; `None` for any other file.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".log")?;
    let number = digits.parse().ok().filter(|&number| number <= NUMBER_MAX)?;
    (file_name(number) == name).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: SegmentHeader = SegmentHeader {
        number: 7,
        salt: 0x1234_5678_9abc_def0,
        sequence_before: 41,
        sequence_high_water: 99,
        before: Some(SegmentBefore {
            number: 5,
            salt: 0xfedc_ba98_7654_3210,
        }),
    };

    #[test]
    fn a_header_reads_back_and_every_flipped_bit_is_detected() {
        let alone = SegmentHeader {
            before: None,
            ..HEADER
        };
        assert_eq!(SegmentHeader::decode(&alone.encode(), 7), Ok(alone));
        let bytes = HEADER.encode();
        assert_eq!(SegmentHeader::decode(&bytes, 7), Ok(HEADER));
        assert_eq!(
            SegmentHeader::decode(&bytes, 8),
            Err(HeaderError::Damaged),
            "a file under another number is not that segment"
        );
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(
                SegmentHeader::decode(&bad, 7),
                Err(HeaderError::Damaged),
                "bit {bit}"
            );
        }
        for length in 0..bytes.len() {
            assert!(SegmentHeader::decode(&bytes[..length], 7).is_err());
        }
    }

    #[test]
    fn another_version_is_told_from_damage() {
        for version in [1, 3] {
            let mut bytes = HEADER.encode();
            bytes[8] = version;
            let crc = crc32fast::hash(&bytes[..CRC_AT]);
            bytes[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
            let decoded = SegmentHeader::decode(&bytes, 7);
            assert_eq!(decoded, Err(HeaderError::Version(u16::from(version))));
        }
    }

    #[test]
    fn only_names_of_segments_have_numbers() {
        assert_eq!(number_of(&file_name(42)), Some(42));
        for other in ["42.log", "checkpoint", "+0000000000000000042.log", ""] {
            assert_eq!(number_of(other), None, "{other}");
        }
    }
}
