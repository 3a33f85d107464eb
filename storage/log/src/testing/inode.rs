//! One file in memory: what a reader sees, and what a power cut leaves.

use super::dice::Dice;

/// Written and not yet synced, in order.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    /// What is in the cache.
    pub live: Vec<u8>,
    /// What is on the disk.
    durable: Vec<u8>,
    pending: Vec<Change>,
}

impl Inode {
    pub fn change(&mut self, change: Change) {
        apply(&mut self.live, &change);
        self.pending.push(change);
    }

    pub fn sync(&mut self) {
        for change in self.pending.drain(..) {
            apply(&mut self.durable, &change);
        }
    }

    /// What a failed sync does: the pages count as clean, so no later sync writes them, and they
    /// are not on the disk.
    pub fn fail_sync(&mut self) {
        self.pending.clear();
    }

    /// Leaves what a power cut does: everything synced; of the rest each write whole, in part,
    /// as garbage or not at all, in no order.
    pub fn crash(&mut self, dice: &mut Dice) {
        for change in std::mem::take(&mut self.pending) {
            match (dice.below(5), change) {
                (0 | 1, _) => {}
                (2, Change::Write { offset, mut bytes }) => {
                    bytes.truncate(dice.below(bytes.len() as u64) as usize);
                    apply(&mut self.durable, &Change::Write { offset, bytes });
                }
                (3, Change::Write { offset, mut bytes }) => {
                    self.spoil(offset, &mut bytes, dice);
                    apply(&mut self.durable, &Change::Write { offset, bytes });
                }
                (_, change) => apply(&mut self.durable, &change),
            }
        }
        self.live.clone_from(&self.durable);
    }

    /// Turns some bytes into garbage; not where something durable lies, as a disk writes a
    /// sector wholly or not at all.
    fn spoil(&self, offset: usize, bytes: &mut [u8], dice: &mut Dice) {
        let from = dice.below(bytes.len() as u64) as usize;
        let count = dice.below(64) as usize;
        for (index, byte) in bytes.iter_mut().enumerate().skip(from).take(count) {
            let old = self.durable.get(offset + index).copied().unwrap_or(0);
            if old == 0 {
                *byte = dice.throw() as u8;
            }
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
