//! Tests that run on each kind of database.

use super::{DatabaseKind, TestDatabase};

/// Runs `async fn name(TestDatabase)` once on each kind of database, as tests `name::sqlite` and
/// `name::postgres`. The database has the schema and no rows; with `empty:` not even that.
///
/// `on_both!([flavor = "current_thread"] path::to::run; name)` runs `run(DatabaseKind, name)` on
/// such a runtime instead.
#[macro_export]
macro_rules! on_both {
    (empty: $($name:ident),+ $(,)?) => {
        $crate::on_both!(
            [flavor = "multi_thread", worker_threads = 2] $crate::testing::on_empty;
            $($name),+
        );
    };
    ($($name:ident),+ $(,)?) => {
        $crate::on_both!(
            [flavor = "multi_thread", worker_threads = 2] $crate::testing::on_schema;
            $($name),+
        );
    };
    ($runtime:tt $run:path; $($name:ident),+ $(,)?) => { $(
        $crate::on_both!(@one $runtime $run; $name);
    )+ };
    (@one [$($runtime:tt)+] $run:path; $name:ident) => {
        mod $name {
            #[tokio::test($($runtime)+)]
            async fn sqlite() {
                $run($crate::testing::DatabaseKind::Sqlite, super::$name).await;
            }

            #[tokio::test($($runtime)+)]
            async fn postgres() {
                $run($crate::testing::DatabaseKind::Postgres, super::$name).await;
            }
        }
    };
}

/// Runs a test with a database of its own that has the schema.
///
/// # Panics
///
/// As [`TestDatabase::of`].
pub async fn on_schema<F: Future<Output = ()>>(
    kind: DatabaseKind,
    test: impl FnOnce(TestDatabase) -> F,
) {
    test(TestDatabase::of(kind).await).await;
}

/// Runs a test with an empty database of its own.
///
/// # Panics
///
/// As [`TestDatabase::sqlite`] and [`TestDatabase::postgres`].
pub async fn on_empty<F: Future<Output = ()>>(
    kind: DatabaseKind,
    test: impl FnOnce(TestDatabase) -> F,
) {
    let database = match kind {
        DatabaseKind::Sqlite => TestDatabase::sqlite(),
        DatabaseKind::Postgres => TestDatabase::postgres().await,
    };
    test(database).await;
}
