//! Tests of error codes against the engine's own names.

use crate::fixture::Database;
use millrace_exports::rows::{OF_QUERY, OF_SERVER};

#[tokio::test]
async fn error_codes_have_clickhouses_names() {
    let database = Database::make("error_codes").await;
    for (code, name) in OF_QUERY.iter().chain(OF_SERVER) {
        let found = database.run(&format!("SELECT errorCodeToName(toUInt32({code}))"));
        assert_eq!(found.trim_end(), *name, "{code}");
    }
}
