//! Steps of a destination's test: a small file is written where the export will write, read and
//! deleted.

use super::names::folder;
use super::store::Store;
use crate::destination::TestStep;
use crate::error::ExportError;
use bytes::Bytes;
use uuid::Uuid;

/// Content of the file.
const CONTENT: &[u8] = b"A test of a batch export's destination; it can be deleted.\n";

pub(super) struct DestinationTest {
    /// Name of the file: unique, so that tests do not meet.
    name: String,
    /// Part of the prefix that is the same for every window.
    prefix: String,
}

impl DestinationTest {
    pub(super) fn new(template: &str) -> Self {
        let constant = template.split('{').next().unwrap_or_default();
        let whole_folders = match constant.rsplit_once('/') {
            Some((folders, _)) if constant.len() < template.len() => folders,
            None if constant.len() < template.len() => "",
            _ => constant,
        };
        Self {
            name: format!("millrace-test-{}.txt", Uuid::new_v4()),
            prefix: whole_folders.to_owned(),
        }
    }

    pub(super) async fn make(&self, store: &dyn Store, step: TestStep) -> Result<(), ExportError> {
        let key = format!("{}{}", folder(&self.prefix)?, self.name);
        match step {
            TestStep::Reach => store.reach().await,
            TestStep::Authenticate => store.authenticate().await,
            TestStep::Write => store.put(&key, Bytes::from_static(CONTENT)).await,
            TestStep::Read => {
                let found = store.read(&key).await;
                if matches!(&found, Ok(Some(bytes)) if bytes == CONTENT) {
                    return Ok(());
                }
                Err(found.err().unwrap_or_else(unreadable))
            }
            TestStep::Delete => store.delete(&key).await,
            TestStep::Find => Ok(()),
        }
    }
}

fn unreadable() -> ExportError {
    let message = "The written file cannot be read back. Grant these credentials read access; the \
                   export needs it to find files of an earlier try.";
    ExportError::permanent(message)
}

#[cfg(test)]
mod tests {
    use super::DestinationTest;

    #[test]
    fn the_test_writes_to_the_folder_that_all_windows_share() {
        let table = [
            ("", ""),
            ("a", "a"),
            ("a/b/", "a/b/"),
            ("a/{year}/b", "a"),
            ("a/b-{year}", "a"),
            ("{table}/a", ""),
            ("x{table}", ""),
        ];
        for (template, expected) in table {
            assert_eq!(
                DestinationTest::new(template).prefix,
                expected,
                "{template}"
            );
        }
    }
}
