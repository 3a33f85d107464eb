//! Updates that were left out, as a person or group would have had too many properties. The
//! operator is told of the first one of a step: the property that takes the space is mostly a
//! client's mistake, which its name gives away.

use super::person_state::PersonState;
use super::update::PersonUpdate;
use millrace_rows::ProjectId;
use uuid::Uuid;

/// Characters of a property's name that are kept: a name may have all of the bytes.
const NAME_CHARS_MAX: usize = 100;

/// Update that was left out, as a person or group would have had too many properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLargeUpdate {
    /// Project of the event.
    pub project_id: ProjectId,
    /// Uuid of the event.
    pub uuid: Uuid,
    /// Bytes that the properties would have counted, or those of the update by itself.
    pub bytes: usize,
    /// Name of the largest property of the update, or, if persons are merged, of both persons; the
    /// beginning of a long one.
    pub property: String,
    /// Bytes that this property counts.
    pub property_bytes: usize,
}

impl PersonState {
    /// Counts an update that was left out with the properties of these names and sizes, and notes
    /// the first one.
    pub fn leave_out<'a>(
        &mut self,
        update: &PersonUpdate,
        bytes: usize,
        sizes: impl Iterator<Item = (&'a str, usize)>,
    ) {
        self.stats.too_large += 1;
        if self.first_too_large.is_some() {
            return;
        }
        let largest = sizes.max_by_key(|(_, bytes)| *bytes);
        let (property, property_bytes) = largest.unwrap_or_default();
        self.first_too_large = Some(TooLargeUpdate {
            project_id: update.project_id,
            uuid: update.uuid,
            bytes,
            property: property.chars().take(NAME_CHARS_MAX).collect(),
            property_bytes,
        });
    }
}
