//! One file in memory: what a reader sees, and what a power cut leaves.

use super::dice::Dice;
use std::ops::Range;

/// Written and not yet synced, in order.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What lies in a directory is known by its names.
    pub is_dir: bool,
    /// What is in the cache.
    pub live: Vec<u8>,
    /// Bytes that cannot be read.
    pub unreadable: Vec<Range<u64>>,
    /// What is on the disk.
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

    /// What a failed sync does: some of it is on the disk, in no order, and all of it counts as
    /// clean, so that no later sync writes the rest.
    pub fn fail_sync(&mut self, dice: &mut Dice) {
        self.keep_some(dice);
    }

    /// Leaves what a power cut does: everything synced; of the rest each write whole, in part,
    /// as garbage or not at all, in no order.
    pub fn crash(&mut self, dice: &mut Dice) {
        self.keep_some(dice);
        self.live.clone_from(&self.durable);
    }

    fn keep_some(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.pending) {
            let Change::Write { offset, bytes } = change else {
                if dice.below(2) == 0 {
                    apply(&mut self.durable, &change);
                }
                continue;
            };
            if let Some((offset, bytes)) = self.torn(offset, bytes, dice) {
                apply(&mut self.durable, &Change::Write { offset, bytes });
            }
        }
    }

    /// What a write that was cut short leaves, and where.
    fn torn(
        &self,
        mut offset: usize,
        mut bytes: Vec<u8>,
        dice: &mut Dice,
    ) -> Option<(usize, Vec<u8>)> {
        let some = dice.below(bytes.len() as u64 + 1) as usize;
        match dice.below(8) {
            0..=2 => return None,
            // Its beginning, its end, which was written first, or both with garbage between.
            3 => bytes.truncate(some),
            4 => {
                bytes.drain(..some);
                offset += some;
            }
            5 => {
                let count = dice.below(64) as usize;
                self.spoil(offset, &mut bytes, some..some + count, dice);
            }
            // A garbage tail: from some byte on, and past its end.
            6 => {
                bytes.resize(bytes.len() + dice.below(200) as usize, 0);
                let tail = some..bytes.len();
                self.spoil(offset, &mut bytes, tail, dice);
            }
            _ => {}
        }
        Some((offset, bytes))
    }

    /// Turns some bytes into garbage, but not past the end of the file. Up to where something
    /// durable lies they stay what they were: a disk writes a sector wholly or not at all.
    fn spoil(&self, offset: usize, bytes: &mut Vec<u8>, range: Range<usize>, dice: &mut Dice) {
        let last = self.durable.iter().rposition(|&byte| byte != 0);
        let durable_end = last.map_or(0, |last| last + 1);
        bytes.truncate(self.live.len().saturating_sub(offset));
        let (skip, count) = (range.start, range.len());
        for (index, byte) in bytes.iter_mut().enumerate().skip(skip).take(count) {
            let at = offset + index;
            *byte = match self.durable.get(at) {
                Some(old) if at < durable_end => *old,
                _ => dice.throw() as u8,
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
            if let Some(place) = bytes.get_mut(*offset..end) {
                place.copy_from_slice(written);
            }
        }
    }
}
