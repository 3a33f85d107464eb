//! Records in, events out: each rule of each format by an example, and then by chance.
//!
//! Fixtures are written by hand or generated, in the formats that the tools publish.

mod mixpanel;
mod support;
