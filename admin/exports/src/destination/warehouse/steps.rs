//! The test of a destination that carries out SQL.

use super::Engine;
use crate::destination::TestStep;
use crate::destination::calls::Pace;
use crate::destination::dialler::Dialler;
use crate::error::ExportError;

/// The steps, in order.
pub(crate) const STEPS: [TestStep; 5] = [
    TestStep::Reach,
    TestStep::Authenticate,
    TestStep::Find,
    TestStep::Write,
    TestStep::Delete,
];

/// What the test writes.
const ROW: &str = r#"[{"uuid": "00000000-0000-0000-0000-000000000000", "event": "test",
    "distinct_id": "test", "team_id": 0, "timestamp": "2000-01-01T00:00:00.000000Z"}]"#;

/// Connects, and says nothing.
pub(crate) async fn reach(
    dialler: &dyn Dialler,
    (host, port): (String, u16),
    pace: &Pace,
) -> Result<(), ExportError> {
    let reached = tokio::time::timeout(pace.timeout, dialler.connect(&host, port)).await;
    match reached {
        Ok(reached) => reached.map(drop),
        Err(_) => Err(ExportError::retry("The server did not answer in time.")),
    }
}

/// Makes one step; the scratch table has this name.
pub(crate) async fn make(
    engine: &dyn Engine,
    dialler: &dyn Dialler,
    pace: &Pace,
    scratch: &str,
    step: TestStep,
) -> Result<(), ExportError> {
    let texts = engine.texts(scratch);
    match step {
        TestStep::Reach => return reach(dialler, engine.host(), pace).await,
        TestStep::Authenticate => engine.run("SELECT 1", None).await?,
        TestStep::Find => match engine.run(&texts.find, None).await? {
            Some(found) => Some(found),
            None => {
                let product = engine.product();
                let message = format!("{product} has no such database and schema.");
                return Err(ExportError::hopeless(message));
            }
        },
        TestStep::Write => {
            engine.run(&texts.stage, None).await?;
            engine.run(&texts.insert, Some(ROW)).await?
        }
        TestStep::Read => engine.run(&texts.count, None).await?,
        TestStep::Delete => engine.run(&texts.drop, None).await?,
    };
    Ok(())
}
