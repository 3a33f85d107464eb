//! Second pass over a body: a walk from structural character to structural character.
//!
//! It accepts exactly the JSON texts whose root is an object or an array and whose nesting is
//! within the limit, and notes where the fields that matter are. It does not report the error of a
//! text that it refuses: that is for the slow path, which reads such a text again.

mod cursor;
#[cfg(test)]
mod differential;
mod envelope;
mod fields;
mod names;
mod number;

pub use envelope::walk;
pub use number::number_len;
