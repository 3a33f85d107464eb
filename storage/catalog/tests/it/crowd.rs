//! Long lists, written past the catalog because that takes a transaction for each.

use millrace_catalog::testing::TestDatabase;

/// The beginning of a statement that inserts numbered rows; `i` counts from 1 to `rows`.
pub fn numbers(rows: u32) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) ")
}

/// What makes a UUID in SQL.
pub fn random_uuid(database: &TestDatabase) -> &'static str {
    if database.is_sqlite() {
        "randomblob(16)"
    } else {
        "gen_random_uuid()"
    }
}

/// Adds members `crowd<i>@example.com` of level 1 to every organization.
pub async fn add_members(database: &TestDatabase, rows: u32) {
    let (numbers, uuid) = (numbers(rows), random_uuid(database));
    let users = format!(
        "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, is_active, \
         created_at, updated_at) {numbers} SELECT {uuid}, 'crowd', 'crowd' || i || \
         '@example.com', '', '', true, i, i FROM n"
    );
    let members = format!(
        "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
         updated_at) SELECT {uuid}, organizations.id, users.id, 1, users.created_at, 1 \
         FROM organizations, users WHERE users.distinct_id = 'crowd'"
    );
    database.execute(&users).await.unwrap();
    database.execute(&members).await.unwrap();
}
