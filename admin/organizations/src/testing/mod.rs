//! Organizations for the tests of whoever needs some.

mod features;
pub mod fixture;
mod sources;
pub mod test_env;

pub use features::set_features;
pub use sources::SourcesInProcess;
