//! Numbers with what they count.

pub use millrace_rows::counted;
