//! Stores of files.

use crate::destination::TestStep;
use crate::error::ExportError;
use async_trait::async_trait;
use bytes::Bytes;

/// Store of files. Keys are paths with slashes, without one at their beginning.
#[async_trait]
pub(super) trait Store: Send + Sync {
    /// Begins a file; `is_alone` if it is the only unpublished one.
    async fn begin(&self, key: &str, is_alone: bool) -> Result<Box<dyn Upload>, ExportError>;

    /// Writes a small file as a whole, in place of an earlier one.
    async fn put(&self, key: &str, bytes: Bytes) -> Result<(), ExportError>;

    /// Reads a small file; `None` if there is none, or it may not be read.
    async fn read(&self, key: &str) -> Result<Option<Bytes>, ExportError>;

    /// Lists keys with this prefix and no slash behind it, temporary names included; none if they
    /// may not be listed.
    async fn list(&self, key_prefix: &str) -> Result<Vec<String>, ExportError>;

    /// Deletes a file, if there is one.
    async fn delete(&self, key: &str) -> Result<(), ExportError>;

    /// Steps of a test that apply to this store.
    fn test_steps(&self) -> &'static [TestStep];

    /// Connects; any answer is a success.
    async fn reach(&self) -> Result<(), ExportError>;

    /// Presents the credentials.
    async fn authenticate(&self) -> Result<(), ExportError>;
}

/// Upload of a file, which nobody sees until it is published. A dropped upload leaves nothing that
/// another one of the same key would not replace.
#[async_trait]
pub(super) trait Upload: Send {
    /// Takes the next bytes; waits while the other side is slower.
    async fn write(&mut self, bytes: Bytes) -> Result<(), ExportError>;

    /// Waits until all bytes are stored.
    async fn seal(&mut self) -> Result<(), ExportError>;

    /// Makes the sealed file visible, in place of an earlier one.
    async fn publish(self: Box<Self>) -> Result<(), ExportError>;

    /// Removes the upload, as far as that can be done.
    async fn abort(self: Box<Self>);
}
