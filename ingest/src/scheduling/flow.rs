//! Flow of a request: the project that it takes turns for.

/// Flow of requests that take turns with others': those of a project, by its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flow(pub(crate) u64);

impl Flow {
    /// Flow of all requests whose project is not known before their body is parsed.
    pub const UNKNOWN: Self = Self(0);

    /// Flow of a project's key: its last bytes, which are its most random.
    pub fn of_key(key: &[u8]) -> Self {
        let tail = key.iter().rev().take(8);
        Self(tail.fold(0, |tail, byte| tail << 8 | u64::from(*byte)))
    }

    /// Returns true if it is a project's.
    pub fn is_known(self) -> bool {
        self != Self::UNKNOWN
    }
}
