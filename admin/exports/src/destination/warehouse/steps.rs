//! Steps of a destination's test on services that take SQL.

use super::engine::Engine;
use super::service::unread;
use crate::destination::TestStep;
use crate::error::ExportError;

/// Steps of all warehouses, in order.
pub(super) const STEPS: [TestStep; 6] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Read,
    TestStep::Delete,
];

/// Row that the test writes.
const ROW: &str = r#"[{"uuid": "00000000-0000-0000-0000-000000000000", "event": "test",
    "distinct_id": "test", "team_id": 0, "timestamp": "2000-01-01T00:00:00.000000Z"}]"#;

/// Makes one step after the first, with a scratch table of this name.
pub(super) async fn make(
    engine: &dyn Engine,
    scratch: &str,
    step: TestStep,
) -> Result<(), ExportError> {
    let statements = engine.statements(scratch);
    match step {
        TestStep::Reach | TestStep::Authenticate => engine.run("SELECT 1", None).await?,
        TestStep::Find => match engine.run(&statements.find, None).await? {
            Some(found) => Some(found),
            None => return Err(engine.api().no_schema()),
        },
        TestStep::Write => {
            engine.run(&statements.stage, None).await?;
            engine.run(&statements.insert, Some(ROW)).await?
        }
        TestStep::Read => match engine.run(&statements.count, None).await? {
            Some(count) if count != "0" => Some(count),
            _ => return Err(unread()),
        },
        TestStep::Delete => engine.run(&statements.drop, None).await?,
    };
    Ok(())
}
