//! Errors by the names that the engine has for them.

use crate::fixture::Database;
use millrace_exports::rows::OF_QUERY;

#[tokio::test]
async fn errors_of_queries_are_called_as_clickhouse_calls_them() {
    let database = Database::make("error_codes").await;
    for (code, name) in OF_QUERY {
        let found = database.run(&format!("SELECT errorCodeToName(toUInt32({code}))"));
        assert_eq!(found.trim_end(), *name, "{code}");
    }
}
