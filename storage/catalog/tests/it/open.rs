//! Opening a catalog: older schemas, many processes at once, and errors.

use millrace_catalog::testing::{TestDatabase, TestPostgres};
use millrace_catalog::{Catalog, CatalogError};
use uuid::Uuid;

on_both!(empty:
    an_empty_catalog_can_be_opened_by_many_at_once,
    an_old_catalog_can_be_upgraded_by_many_at_once,
    a_schema_before_4bbccd5_is_refused_and_left_alone,
    a_newer_schema_is_refused,
    an_existing_catalog_is_opened_and_upgraded,
    a_catalog_keeps_its_id_as_its_copies_do_and_another_one_has_another,
);

async fn an_empty_catalog_can_be_opened_by_many_at_once(database: TestDatabase) {
    open_many_times_at_once(&database).await;
}

async fn an_old_catalog_can_be_upgraded_by_many_at_once(database: TestDatabase) {
    let old = database.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    open_many_times_at_once(&database).await;
}

async fn open_many_times_at_once(database: &TestDatabase) {
    let opening: Vec<_> = (0..8)
        .map(|_| {
            let url = database.url().to_owned();
            tokio::spawn(async move { Catalog::open(&url).await })
        })
        .collect();
    for opened in opening {
        let catalog = opened.await.unwrap().unwrap();
        assert_eq!(catalog.keys_version().await.unwrap(), 0);
    }
}

async fn a_schema_before_4bbccd5_is_refused_and_left_alone(database: TestDatabase) {
    let old = database.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    let unapplied = "DELETE FROM seaql_migrations WHERE version = 'm0026_forgotten_runs'";
    database.execute(unapplied).await.unwrap();
    let before = database.contents().await.unwrap();
    for opened in [
        Catalog::open(database.url()).await,
        Catalog::open_existing(database.url()).await,
    ] {
        let error = opened.unwrap_err();
        let CatalogError::OlderSchema { missing, .. } = &error else {
            panic!("{error:?}");
        };
        assert_eq!(*missing, "m0026_forgotten_runs");
        let message = error.to_string();
        assert!(
            message.contains("start the millrace of that commit"),
            "{message}"
        );
    }
    assert_eq!(database.contents().await.unwrap(), before);
}

async fn a_newer_schema_is_refused(database: TestDatabase) {
    Catalog::open(database.url())
        .await
        .unwrap()
        .close()
        .await
        .unwrap();
    let newer = "INSERT INTO seaql_migrations (version, applied_at) VALUES ('m9999_later', 1)";
    database.execute(newer).await.unwrap();
    let error = Catalog::open(database.url()).await.unwrap_err();
    let CatalogError::NewerSchema { detail, .. } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(detail, "m9999_later");
    assert!(
        error.to_string().contains("newer version of millrace"),
        "{error}"
    );
}

#[tokio::test]
async fn errors_about_unusable_urls_name_usable_forms() {
    let table = [
        "",
        "mysql://localhost/millrace",
        "/var/lib/millrace/catalog.db",
        "sqlite::memory:",
        "sqlite://a.db?mode=sideways",
        "postgres://user:pass word@host:notaport/db",
    ];
    for url in table {
        let error = Catalog::open(url).await.unwrap_err();
        assert!(
            matches!(error, CatalogError::Url { .. }),
            "{url}: {error:?}"
        );
        assert!(error.to_string().contains("sqlite://<path>"), "{error}");
        assert!(!error.to_string().contains("pass word"), "{error}");
    }
}

#[tokio::test]
async fn an_error_names_the_server_that_is_down_and_the_cause() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("postgres://user:canary@{address}/millrace");
    let error = Catalog::open(&url).await.unwrap_err().to_string();
    assert!(error.contains("nothing listens there"), "{error}");
    assert!(error.contains(&address.to_string()), "{error}");
    assert!(!error.contains("canary"), "{error}");
}

#[tokio::test]
async fn an_error_names_a_host_that_does_not_exist() {
    let url = "postgres://user:canary@no-such-host.invalid/millrace";
    let error = Catalog::open(url).await.unwrap_err().to_string();
    for words in ["no-such-host.invalid:5432", "there is no such host"] {
        assert!(error.contains(words), "{error}");
    }
    assert!(!error.contains("canary"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_accepts_and_says_nothing_is_given_up_after_five_seconds() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let begun_at = tokio::time::Instant::now();
    let error = Catalog::open(&format!("postgres://user:canary@{address}/millrace")).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, CatalogError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(
        error.to_string().contains("nothing there answers"),
        "{error}"
    );
    // Two of them for the reason of a refusal, which is asked for once more.
    assert_eq!(begun_at.elapsed().as_secs_f64().round(), 7.0);
}

#[tokio::test]
async fn an_error_names_the_file_that_cannot_be_opened() {
    let directory = tempfile::TempDir::new().unwrap();
    let missing = directory.path().join("missing/catalog.db");
    for path in [missing.as_path(), directory.path()] {
        let url = format!("sqlite://{}?mode=rwc", path.display());
        let error = Catalog::open(&url).await.unwrap_err();
        assert!(
            matches!(error, CatalogError::CannotOpen { .. }),
            "{error:?}"
        );
        assert!(
            error.to_string().contains(path.to_str().unwrap()),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_file_that_is_no_database_is_not_changed() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("catalog.db");
    let content = "These are notes, not a database.\n".repeat(200);
    std::fs::write(&path, &content).unwrap();
    let url = format!("sqlite://{}?mode=rwc", path.display());
    let error = Catalog::open(&url).await.unwrap_err();
    assert!(matches!(error, CatalogError::Damaged { .. }), "{error:?}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_of_the_server_is_classified() {
    let url = TestPostgres::start().url("postgres");
    let stranger = url.replace("postgres@", "stranger:secret@");
    let error = Catalog::open(&stranger).await.unwrap_err();
    assert!(matches!(error, CatalogError::Refused { .. }), "{error:?}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let nowhere = TestPostgres::start().url("nowhere");
    let error = Catalog::open(&nowhere).await.unwrap_err();
    assert!(
        matches!(error, CatalogError::NoSuchDatabase { .. }),
        "{error:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_catalog_that_is_opened_later_is_the_expected_one_or_none() {
    let database = TestDatabase::postgres().await;
    let catalog = Catalog::open(database.url()).await.unwrap();
    let id = catalog.id().await.unwrap();
    let later = Catalog::open_later(database.url(), id).await.unwrap();
    assert_eq!(later.keys_version().await.unwrap(), 0);
    let other = Catalog::open_later(database.url(), Uuid::nil()).await;
    let error = other.unwrap().keys_version().await.unwrap_err();
    assert!(
        matches!(error, CatalogError::Unreachable { .. }),
        "{error:?}"
    );
    let away = Catalog::open_later("postgresql://me@127.0.0.1:1/none", id).await;
    away.unwrap().keys_version().await.unwrap_err();
    let file = Catalog::open_later("sqlite://catalog.db", id).await;
    assert!(matches!(file, Err(CatalogError::Url { .. })), "{file:?}");
}

#[tokio::test]
async fn a_missing_server_is_unreachable() {
    let directory = tempfile::TempDir::new().unwrap();
    let host = directory.path().to_str().unwrap().replace('/', "%2F");
    let error = Catalog::open(&format!("postgresql://me@{host}/db"))
        .await
        .unwrap_err();
    assert!(
        matches!(error, CatalogError::Unreachable { .. }),
        "{error:?}"
    );
}

#[tokio::test]
async fn sqlite_is_configured_to_survive_a_power_cut() {
    let database = TestDatabase::sqlite();
    let catalog = Catalog::open(database.url()).await.unwrap();
    let settings = catalog.sqlite_settings().await.unwrap();
    assert_eq!(
        settings,
        [
            ("journal_mode", "wal"),
            ("synchronous", "2"),
            ("foreign_keys", "1")
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_an_existing_catalog_creates_none() {
    let folder = tempfile::TempDir::new().unwrap();
    let file = |name: &str| format!("sqlite://{}?mode=rwc", folder.path().join(name).display());
    std::fs::write(folder.path().join("empty.db"), "").unwrap();
    let other = TestDatabase::sqlite();
    let elsewhere = TestDatabase::postgres().await;
    for database in [&other, &elsewhere] {
        let foreign = "CREATE TABLE somebody_elses (id BIGINT)";
        database.execute(foreign).await.unwrap();
    }
    let table = [
        file("catalog.db"),
        file("no/folder/catalog.db"),
        file("empty.db"),
        other.url().to_owned(),
        elsewhere.url().to_owned(),
    ];
    for url in table {
        let error = Catalog::open_existing(&url).await.unwrap_err();
        assert!(
            matches!(error, CatalogError::Missing { .. }),
            "{url}: {error:?}"
        );
        assert!(error.to_string().contains("first start"), "{error}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let length = std::fs::metadata(folder.path().join("empty.db")).unwrap();
    assert_eq!(length.len(), 0);
    for database in [&other, &elsewhere] {
        let ours = "SELECT id FROM organizations";
        assert!(database.execute(ours).await.is_err(), "a table was made");
    }
}

async fn an_existing_catalog_is_opened_and_upgraded(database: TestDatabase) {
    let old = database.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    let catalog = Catalog::open_existing(database.url()).await.unwrap();
    assert_eq!(catalog.keys_version().await.unwrap(), 0);
}

/// Opens a catalog, and returns its id.
async fn id_of(database: &TestDatabase) -> String {
    let catalog = Catalog::open(database.url()).await.unwrap();
    let id = catalog.id().await.unwrap().to_string();
    catalog.close().await.unwrap();
    id
}

async fn a_catalog_keeps_its_id_as_its_copies_do_and_another_one_has_another(
    database: TestDatabase,
) {
    let upgraded = TestDatabase::sqlite();
    let old = upgraded.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    let id = id_of(&database).await;
    assert_eq!(id_of(&database).await, id);
    assert_eq!(id_of(&database.copy().await.unwrap()).await, id);
    let others = [TestDatabase::sqlite(), upgraded];
    let [another, upgraded] = &others;
    let ids = [id, id_of(another).await, id_of(upgraded).await];
    let [one, other, old] = &ids;
    assert!(one != other && one != old && other != old, "{ids:?}");
    assert_eq!(id_of(upgraded).await, *old);
}
