//! One file in memory: the bytes that a reader sees, and those that a power cut leaves.

use super::seeded_rng::SeededRng;
use std::ops::Range;

/// A change that is not synced yet.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// True for a directory, whose contents follow from the names.
    pub is_dir: bool,
    /// Bytes in the cache.
    pub live: Vec<u8>,
    /// Bytes that cannot be read.
    pub unreadable: Vec<Range<u64>>,
    /// Bytes on the disk.
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Inode {
    pub fn dir() -> Self {
        Self {
            is_dir: true,
            ..Self::default()
        }
    }

    pub fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// Fails a sync: some changes are on the disk, in no order, and all count as clean, so that no
    /// later sync writes the rest.
    pub fn fail_sync(&mut self, rng: &mut SeededRng) {
        self.keep_some(rng);
    }

    /// Cuts the power: synced bytes stay; every other write stays whole, in part, as garbage or not
    /// at all, in no order.
    pub fn crash(&mut self, rng: &mut SeededRng) {
        self.keep_some(rng);
        self.live.clone_from(&self.durable);
    }

    fn keep_some(&mut self, rng: &mut SeededRng) {
        for change in std::mem::take(&mut self.pending) {
            let Change::Write { offset, bytes } = change else {
                if rng.below(2) == 0 {
                    apply(&mut self.durable, &change);
                }
                continue;
            };
            if let Some((offset, bytes)) = self.torn(offset, bytes, rng) {
                apply(&mut self.durable, &Change::Write { offset, bytes });
            }
        }
    }

    /// Returns a torn write's offset and bytes, if any of it is left.
    fn torn(
        &self,
        mut offset: usize,
        mut bytes: Vec<u8>,
        rng: &mut SeededRng,
    ) -> Option<(usize, Vec<u8>)> {
        let some = rng.below(bytes.len() as u64 + 1) as usize;
        match rng.below(8) {
            0..=2 => return None,
            // Its beginning, its end, or both with garbage between.
            3 => bytes.truncate(some),
            4 => {
                bytes.drain(..some);
                offset += some;
            }
            5 => {
                let count = rng.below(64) as usize;
                self.spoil(offset, &mut bytes, some..some + count, rng);
            }
            // A garbage tail: from some byte on, and past its end.
            6 => {
                bytes.resize(bytes.len() + rng.below(200) as usize, 0);
                let tail = some..bytes.len();
                self.spoil(offset, &mut bytes, tail, rng);
            }
            _ => {}
        }
        Some((offset, bytes))
    }

    /// Turns some bytes into garbage, but not past the end of the file. Bytes over durable ones
    /// keep the old value: a disk writes a sector wholly or not at all.
    fn spoil(&self, offset: usize, bytes: &mut Vec<u8>, range: Range<usize>, rng: &mut SeededRng) {
        let last = self.durable.iter().rposition(|&byte| byte != 0);
        let durable_end = last.map_or(0, |last| last + 1);
        bytes.truncate(self.live.len().saturating_sub(offset));
        let (skip, count) = (range.start, range.len());
        for (index, byte) in bytes.iter_mut().enumerate().skip(skip).take(count) {
            let at = offset + index;
            *byte = match self.durable.get(at) {
                Some(old) if at < durable_end => *old,
                _ => rng.next_u64() as u8,
            };
        }
    }
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Length(length) => bytes.resize(*length, 0),
        Change::Write {
            offset,
            bytes: written,
        } => {
            let end = offset + written.len();
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            if let Some(target) = bytes.get_mut(*offset..end) {
                target.copy_from_slice(written);
            }
        }
    }
}
