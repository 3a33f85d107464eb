//! What a place for files must be able to do.

use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use bytes::Bytes;

/// A place for files. Keys are paths with slashes, without one at their beginning.
#[async_trait]
pub(super) trait Store: Send + Sync {
    /// Begins a file; `is_alone` if it is the only one that is not yet published.
    async fn begin(&self, key: &str, is_alone: bool) -> Result<Box<dyn Upload>, ExportError>;

    /// Writes a small file as a whole, in place of what was there.
    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ExportError>;

    /// A small file; `None` if there is none, or it may not be read.
    async fn read(&self, key: &str) -> Result<Option<Bytes>, ExportError>;

    /// The keys that begin so and have no slash behind that, temporary names included; none if they
    /// may not be listed.
    async fn list(&self, beginning: &str) -> Result<Vec<String>, ExportError>;

    /// Deletes a file, if there is one.
    async fn delete(&self, key: &str) -> Result<(), ExportError>;

    /// The steps of a test that make sense here.
    fn test_steps(&self) -> &'static [TestStep];

    /// Connects, whatever is answered.
    async fn reach(&self) -> Result<(), ExportError>;

    /// Presents the credentials.
    async fn authenticate(&self) -> Result<(), ExportError>;
}

/// A file that is being written, and that nobody sees until it is published. One that is dropped
/// leaves nothing that another one of the same key would not replace.
#[async_trait]
pub(super) trait Upload: Send {
    /// Takes the next bytes; waits while the other side is slower.
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError>;

    /// Ends when all that was written is stored.
    async fn seal(&mut self) -> Result<(), ExportError>;

    /// Makes it seen, in place of what was there; it is sealed.
    async fn publish(self: Box<Self>) -> Result<(), ExportError>;

    /// Takes it back, as well as that can be done.
    async fn abort(self: Box<Self>);
}
