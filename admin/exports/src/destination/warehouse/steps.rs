//! The test of a destination that carries out SQL.

use super::engine::Engine;
use crate::destination::TestStep;
use crate::error::ExportError;

/// The steps, in order, of all warehouses.
pub(super) const STEPS: [TestStep; 6] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Read,
    TestStep::Delete,
];

/// What the test writes.
const ROW: &str = r#"[{"uuid": "00000000-0000-0000-0000-000000000000", "event": "test",
    "distinct_id": "test", "team_id": 0, "timestamp": "2000-01-01T00:00:00.000000Z"}]"#;

/// Makes one step but the first; the scratch table has this name.
pub(super) async fn make(
    engine: &dyn Engine,
    scratch: &str,
    step: TestStep,
) -> Result<(), ExportError> {
    let texts = engine.texts(scratch);
    match step {
        TestStep::Reach | TestStep::Authenticate => engine.run("SELECT 1", None).await?,
        TestStep::Find => match engine.run(&texts.find, None).await? {
            Some(found) => Some(found),
            None => return Err(engine.api().no_schema()),
        },
        TestStep::Write => {
            engine.run(&texts.stage, None).await?;
            engine.run(&texts.insert, Some(ROW)).await?
        }
        TestStep::Read => match engine.run(&texts.count, None).await? {
            Some(count) if count != "0" => Some(count),
            _ => return Err(unread()),
        },
        TestStep::Delete => engine.run(&texts.drop, None).await?,
    };
    Ok(())
}

/// The row that a test wrote is not there.
pub(crate) fn unread() -> ExportError {
    ExportError::hopeless("What was written cannot be read back.")
}
