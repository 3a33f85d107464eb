//! The second pass over a body: from structural character to structural character.
//!
//! It accepts exactly the JSON texts whose root is an object or an array and whose nesting is
//! within the limit, and notes where the fields that matter are. It says nothing of what is
//! wrong with a text it refuses: that is for the slow path, which reads such a text again.

mod cursor;
#[cfg(test)]
mod differential;
mod envelope;
mod fields;
mod names;
mod number;

pub use envelope::walk;
pub use number::number_len;

/// The text is not JSON, or nested too deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;
