//! Just enough of [FlatBuffers' binary format][spec] to read numbers and tables out of tables.
//!
//! [spec]: https://flatbuffers.dev/internals/

/// A table within a buffer.
#[derive(Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Table<'a> {
    /// The table that a buffer is about.
    pub(super) fn root(buffer: &'a [u8]) -> Option<Self> {
        let at = usize::try_from(u32::from_le_bytes(array(buffer, 0)?)).ok()?;
        Some(Self { buffer, at })
    }

    /// A field of one byte; `None` if it has its default.
    pub(super) fn byte(self, field: usize) -> Option<u8> {
        let [byte] = array(self.buffer, self.field(field)?)?;
        Some(byte)
    }

    /// A field of eight; `None` if it has its default.
    pub(super) fn long(self, field: usize) -> Option<i64> {
        Some(i64::from_le_bytes(array(self.buffer, self.field(field)?)?))
    }

    /// A field that is a table of its own.
    pub(super) fn table(self, field: usize) -> Option<Self> {
        let from = self.field(field)?;
        let offset = u32::from_le_bytes(array(self.buffer, from)?);
        let at = from.checked_add(usize::try_from(offset).ok()?)?;
        Some(Self {
            buffer: self.buffer,
            at,
        })
    }

    /// Where a field is: a table begins with the way back to a list of its fields' places.
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
