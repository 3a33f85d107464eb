//! The formats by name.

use crate::mapping::Mixpanel;
use crate::{Mapping, Options, OptionsError};

/// A format of files of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Format {
    /// Mixpanel's raw export: lines of JSON.
    Mixpanel,
}

impl Format {
    /// All of them, as a user is shown them.
    pub const ALL: &[Self] = &[Self::Mixpanel];

    /// What a user calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mixpanel => "mixpanel",
        }
    }

    /// The format that a user calls so.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|format| format.name() == name)
    }

    /// What makes events of its records.
    ///
    /// # Errors
    /// When an option cannot be had.
    pub fn mapping(self, options: &Options) -> Result<Box<dyn Mapping>, OptionsError> {
        Ok(match self {
            Self::Mixpanel => Box::new(Mixpanel::new(options)?),
        })
    }
}
