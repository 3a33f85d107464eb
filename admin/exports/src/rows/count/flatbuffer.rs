//! Reader of numbers and tables in [FlatBuffers' binary format][spec].
//!
//! [spec]: https://flatbuffers.dev/internals/

/// Table within a buffer.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// Root table of a buffer.
    pub(super) fn root(buffer: &'a [u8]) -> Option<Self> {
        let at = usize::try_from(u32::from_le_bytes(array(buffer, 0)?)).ok()?;
        Some(Self { buffer, at })
    }

    /// Field of one byte; `None` if it has its default.
    pub(super) fn byte(self, field: usize) -> Option<u8> {
        let [byte] = array(self.buffer, self.field(field)?)?;
        Some(byte)
    }

    /// Field of eight bytes; `None` if it has its default.
    pub(super) fn long(self, field: usize) -> Option<i64> {
        Some(i64::from_le_bytes(array(self.buffer, self.field(field)?)?))
    }

    /// Field that is a table.
    pub(super) fn table(self, field: usize) -> Option<Self> {
        let from = self.field(field)?;
        let offset = u32::from_le_bytes(array(self.buffer, from)?);
        let at = from.checked_add(usize::try_from(offset).ok()?)?;
        Some(Self {
            buffer: self.buffer,
            at,
        })
    }

    /// Position of a field: a table begins with the offset, backwards, of a list of its fields'
    /// positions.
    fn field(self, field: usize) -> Option<usize> {
        let back = i64::from(i32::from_le_bytes(array(self.buffer, self.at)?));
        let places = i64::try_from(self.at).ok()?.checked_sub(back)?;
        let places = usize::try_from(places).ok()?;
        let length = usize::from(u16::from_le_bytes(array(self.buffer, places)?));
        let entry = field.checked_mul(2)?.checked_add(4)?;
        if entry.checked_add(2)? > length {
            return None;
        }
        let offset = u16::from_le_bytes(array(self.buffer, places.checked_add(entry)?)?);
        (offset != 0).then(|| self.at.checked_add(usize::from(offset)))?
    }
}

fn array<const N: usize>(buffer: &[u8], at: usize) -> Option<[u8; N]> {
    buffer.get(at..)?.first_chunk().copied()
}
