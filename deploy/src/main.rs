//! The `millrace` binary.
fn main() {}
