//! Resident memory by the kind of its mappings, which tells whose allocator holds it.
//!
//! The program's own allocator is mimalloc; libraries in C (SQLite, zstd) use that of the system.
//! Memory that grows in the one is looked for in other places than memory that grows in the other.

use super::subject::KIB;
use crate::report::mebibytes;
use serde::Serialize;
use std::fmt;

/// Least size of a mapping without a name that is taken for an arena of mimalloc, which has a GiB.
const ARENA_BYTES_MIN: u64 = 256 << 20;
/// Addresses at which the arenas of glibc begin, and their greatest size.
const C_ARENA_BYTES: u64 = 64 << 20;

/// Resident bytes of a process by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryKinds {
    /// Arenas of the program's own allocator.
    pub own_bytes: u64,
    /// Heap and arenas of the system's allocator, without its large pieces.
    pub c_bytes: u64,
    /// Mapped files: the program, libraries, SQLite's shared memory.
    pub file_bytes: u64,
    /// Stacks, large pieces of the system's allocator, and whatever else has no name.
    pub other_bytes: u64,
}

impl MemoryKinds {
    /// Memory of a process; all zero if it may not be read.
    pub(super) fn of(pid: u32) -> Self {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps"));
        Self::parse(&text.unwrap_or_default())
    }

    fn parse(smaps: &str) -> Self {
        let mut kinds = Self::default();
        let mut kind = None;
        for line in smaps.lines() {
            if let Some(begun) = Kind::of(line) {
                kind = Some(begun);
            } else if let Some(kind) = kind
                && let Some(kib) = line.strip_prefix("Rss:")
            {
                let kib = kib.trim().trim_end_matches(" kB").parse::<u64>();
                *kinds.bytes_of(kind) += kib.unwrap_or_default() * KIB;
            }
        }
        kinds
    }

    const fn bytes_of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::Own => &mut self.own_bytes,
            Kind::C => &mut self.c_bytes,
            Kind::File => &mut self.file_bytes,
            Kind::Other => &mut self.other_bytes,
        }
    }
}

/// Kind of a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Own,
    C,
    File,
    Other,
}

impl Kind {
    /// Kind of the mapping that a line begins; `None` for the other lines.
    fn of(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (from, until) = words.next()?.split_once('-')?;
        let from = u64::from_str_radix(from, 16).ok()?;
        let bytes = u64::from_str_radix(until, 16).ok()?.saturating_sub(from);
        // Behind permissions, offset, device and inode.
        let name = words.nth(4).unwrap_or_default();
        Some(match name {
            "[heap]" => Self::C,
            _ if name.contains("mimalloc") => Self::Own,
            _ if name.starts_with('/') => Self::File,
            "" if bytes >= ARENA_BYTES_MIN => Self::Own,
            "" if from.is_multiple_of(C_ARENA_BYTES) && bytes <= C_ARENA_BYTES => Self::C,
            _ => Self::Other,
        })
    }
}

impl fmt::Display for MemoryKinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.0} in own arenas, {:.0} in C's, {:.0} in files, {:.0} in others",
            mebibytes(self.own_bytes),
            mebibytes(self.c_bytes),
            mebibytes(self.file_bytes),
            mebibytes(self.other_bytes)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_told_apart_by_name_size_and_address() {
        for (line, expected) in [
            (
                "55d0c0000000-55d0c0100000 rw-p 00000000 00:00 0      [heap]",
                Some(Kind::C),
            ),
            (
                "7f0000000000-7f0000021000 rw-p 00000000 00:00 0 ",
                Some(Kind::C),
            ),
            (
                "7f0001234000-7f0001235000 rw-p 00000000 00:00 0",
                Some(Kind::Other),
            ),
            (
                "20000000000-20040000000 rw-p 00000000 00:00 0",
                Some(Kind::Own),
            ),
            (
                "7f0001234000-7f0001235000 rw-p 00000000 00:00 0 [anon:mimalloc]",
                Some(Kind::Own),
            ),
            (
                "7f0001234000-7f0001235000 r-xp 00000000 08:01 42 /usr/bin/millrace",
                Some(Kind::File),
            ),
            (
                "7ffc0000-7ffd0000 rw-p 00000000 00:00 0 [stack]",
                Some(Kind::Other),
            ),
            ("Rss:                  12 kB", None),
            ("VmFlags: rd wr mr mw me ac sd", None),
        ] {
            assert_eq!(Kind::of(line), expected, "{line}");
        }
    }

    #[test]
    fn resident_bytes_are_summed_by_kind() {
        let smaps = "55d0c0000000-55d0c0100000 rw-p 00000000 00:00 0 [heap]\n\
            Size:               1024 kB\nRss:                  12 kB\nPss:                  12 kB\n\
            20000000000-20040000000 rw-p 00000000 00:00 0\nRss:                 100 kB\n\
            20080000000-200c0000000 rw-p 00000000 00:00 0\nRss:                   1 kB\n";
        let expected = MemoryKinds {
            own_bytes: 101 * KIB,
            c_bytes: 12 * KIB,
            ..MemoryKinds::default()
        };
        assert_eq!(MemoryKinds::parse(smaps), expected);
        assert_eq!(MemoryKinds::parse(""), MemoryKinds::default());
    }
}
