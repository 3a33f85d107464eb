//! Formatting of a number with its noun, as "1 file" and "2 files".

pub use millrace_rows::counted;
