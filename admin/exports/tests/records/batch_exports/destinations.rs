//! Destinations: fields, secrets, merges.

use super::{TestEnv, destination, new_export, s3, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExport, ChangeError, DestinationType};
use millrace_exports::{
    BatchExportChange, BatchExports, DestinationChange, NewBatchExport, SecretError, SecretKey,
    secrets_of,
};
use serde_json::{Value, json};

on_both!(
    every_type_is_stored_without_plain_secrets,
    a_change_keeps_what_it_does_not_name,
    secrets_are_not_sent_to_another_place,
    a_name_that_leads_out_of_a_providers_domain_is_refused,
    a_path_that_extends_the_servers_name_is_refused,
    bad_destinations_are_refused_with_the_field_at_fault,
    bucket_rules_of_aws_do_not_apply_to_other_s3_stores,
    a_secret_opens_with_its_key_only,
);

pub(super) async fn made(
    env: &TestEnv,
    destination: DestinationChange,
) -> Result<BatchExport, ChangeError> {
    let new = NewBatchExport {
        destination,
        ..new_export()
    };
    env.make(new).await
}

pub(super) async fn changed(
    env: &TestEnv,
    export: &BatchExport,
    kind: Option<DestinationType>,
    config: Value,
) -> Result<BatchExport, ChangeError> {
    let change = BatchExportChange {
        destination: Some(DestinationChange {
            kind,
            config: config.as_object().unwrap().clone(),
        }),
        ..BatchExportChange::default()
    };
    let catalog = &env.fixture.catalog;
    let changed = BatchExports::new(catalog).update(env.writer(), export.id, change);
    changed.await.map(|seen| seen.export)
}

const SERVICE_ACCOUNT: &str =
    r#"{"client_email": "e", "private_key_id": "i", "private_key": "s3cret"}"#;

/// One destination of each type: its readable fields, and its secrets.
pub(super) fn all_types() -> [(DestinationType, Value, Value); 12] {
    let database =
        json!({ "host": "db.example.com", "database": "d", "schema": "s", "port": 5433 });
    let credentials = json!({ "user": "u", "password": "s3cret" });
    [
        (
            DestinationType::S3,
            json!({ "bucket_name": "bucket", "region": "r", "prefix": "p", "file_format": "Parquet",
                "compression": "zstd", "endpoint_url": "https://s3.example.com",
                "use_virtual_style_addressing": true, "max_file_size_mb": 100,
                "encryption": "aws:kms", "kms_key_id": "k", "include_events": ["a"] }),
            json!({ "aws_access_key_id": "AKIA", "aws_secret_access_key": "s3cret" }),
        ),
        (
            DestinationType::AzureBlob,
            json!({ "container_name": "container", "prefix": "" }),
            json!({ "connection_string": "AccountName=a;AccountKey=s3cret" }),
        ),
        (
            DestinationType::Gcs,
            json!({ "bucket_name": "bucket" }),
            json!({ "service_account_key": SERVICE_ACCOUNT }),
        ),
        (
            DestinationType::FileSystem,
            json!({ "path": "exports/a" }),
            json!({}),
        ),
        (
            DestinationType::Postgres,
            database.clone(),
            credentials.clone(),
        ),
        (DestinationType::Redshift, database, credentials),
        (
            DestinationType::Snowflake,
            json!({ "account": "a", "database": "d", "warehouse": "w", "schema": "s",
                "authentication_type": "keypair" }),
            json!({ "user": "u", "private_key": "s3cret", "private_key_passphrase": "s3cret" }),
        ),
        (
            DestinationType::BigQuery,
            json!({ "project_id": "p", "dataset_id": "d", "use_json_type": false }),
            json!({ "private_key": "s3cret", "private_key_id": "i", "client_email": "e",
                "token_uri": "https://oauth2.example.com/token" }),
        ),
        (
            DestinationType::Databricks,
            json!({ "http_path": "/h", "catalog": "c", "schema": "s", "table_name": "t" }),
            json!({ "client_id": "i", "client_secret": "s3cret" }),
        ),
        (
            DestinationType::ClickHouse,
            json!({ "url": "https://clickhouse.example.com:8443", "database": "d" }),
            json!({ "user": "u", "password": "s3cret" }),
        ),
        (
            DestinationType::Http,
            json!({ "url": "https://in.example.com/batch/" }),
            json!({ "token": "s3cret" }),
        ),
        (DestinationType::NoOp, json!({ "arg": "" }), json!({})),
    ]
}

async fn every_type_is_stored_without_plain_secrets(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    for (kind, config, secrets) in all_types() {
        let mut given = config.clone();
        given
            .as_object_mut()
            .unwrap()
            .extend(secrets.as_object().unwrap().clone());
        given["unknown"] = json!({ "password": "s3cret" });
        let export = made(&env, destination(kind, given)).await.unwrap();
        assert_eq!(
            (export.destination_type, &export.destination_config),
            (kind, &config)
        );
        let opened = json!(secrets_of(&export, &env.key).unwrap());
        assert_eq!(opened, secrets, "{kind:?}");
        assert!(!format!("{export:?}").contains("s3cret"), "{kind:?}");
        // Every field that is needed is reported as missing.
        for name in config
            .as_object()
            .unwrap()
            .keys()
            .chain(secrets.as_object().unwrap().keys())
        {
            let mut less = config.clone();
            less.as_object_mut()
                .unwrap()
                .extend(secrets.as_object().unwrap().clone());
            less.as_object_mut().unwrap().remove(name);
            if let Err(error) = made(&env, destination(kind, less)).await {
                let (field, code) = violation(&error);
                let expected = format!("destination__config__{name}");
                assert!(
                    (field.as_ref(), code) == (Some(&expected), "required")
                        || (kind, name.as_str())
                            == (DestinationType::Snowflake, "authentication_type")
                        || (kind, name.as_str()) == (DestinationType::S3, "file_format"),
                    "{kind:?} {name}: {error}"
                );
            }
        }
    }
}

async fn a_change_keeps_what_it_does_not_name(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = made(&env, s3()).await.unwrap();
    let after = changed(
        &env,
        &export,
        None,
        json!({ "prefix": "q", "compression": "gzip" }),
    )
    .await;
    let after = after.unwrap();
    let expected =
        json!({ "bucket_name": "bucket", "region": "r", "prefix": "q", "compression": "gzip" });
    assert_eq!(after.destination_config, expected);
    assert_eq!(after.destination_secrets, export.destination_secrets);

    let s3 = Some(DestinationType::S3);
    let secret = json!({ "aws_secret_access_key": "new", "compression": null });
    let after = changed(&env, &after, s3, secret).await.unwrap();
    let secrets = secrets_of(&after, &env.key).unwrap();
    assert_eq!(secrets["aws_secret_access_key"], "new");
    assert_eq!(secrets["aws_access_key_id"], "AKIA");
    assert_eq!(after.destination_config.get("compression"), None);
    let neither = json!({ "aws_access_key_id": null, "aws_secret_access_key": null });
    let after = changed(&env, &after, None, neither).await.unwrap();
    assert_eq!(secrets_of(&after, &env.key).unwrap().len(), 0);

    let other = Some(DestinationType::NoOp);
    let after = changed(&env, &after, other, json!({ "prefix": "z" }))
        .await
        .unwrap();
    assert_eq!(
        (after.destination_config, after.destination_secrets),
        (json!({}), json!({}))
    );
}

/// Fields of a type that say where its secrets go, with other values.
fn places(kind: DestinationType) -> Vec<(&'static str, Value)> {
    match kind {
        DestinationType::S3 => vec![
            ("endpoint_url", json!("https://evil.example")),
            ("endpoint_url", Value::Null),
        ],
        DestinationType::Postgres | DestinationType::Redshift => {
            vec![("host", json!("evil.example")), ("port", json!(1))]
        }
        DestinationType::Snowflake => vec![("account", json!("evil"))],
        DestinationType::BigQuery => vec![("token_uri", json!("https://evil.example/token"))],
        DestinationType::Databricks => vec![("server_hostname", json!("evil.example"))],
        DestinationType::ClickHouse => vec![("url", json!("https://evil.example"))],
        DestinationType::Http => vec![("url", json!("https://evil.example/batch/"))],
        // Their secrets name the server themselves, or there are none.
        DestinationType::AzureBlob
        | DestinationType::Gcs
        | DestinationType::FileSystem
        | DestinationType::NoOp => Vec::new(),
    }
}

async fn secrets_are_not_sent_to_another_place(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    for (kind, config, secrets) in all_types() {
        let mut all = config.clone();
        let secrets = secrets.as_object().unwrap();
        all.as_object_mut().unwrap().extend(secrets.clone());
        let export = made(&env, destination(kind, all)).await.unwrap();
        let same = changed(&env, &export, None, config).await.unwrap();
        assert_eq!(
            same.destination_secrets, export.destination_secrets,
            "{kind:?}: kept where nothing changes"
        );
        for (place, elsewhere) in places(kind) {
            let mut given = secrets.clone();
            given.insert(place.to_owned(), elsewhere.clone());
            for secret in secrets.keys().filter(|secret| *secret != place) {
                for others in [true, false] {
                    let mut less = given.clone();
                    less.retain(|name, _| name == place || (others && name != secret));
                    let error = changed(&env, &export, None, less.into()).await;
                    let (attr, code) = violation(&error.unwrap_err());
                    let attr = attr.unwrap();
                    let named = attr.strip_prefix("destination__config__").unwrap();
                    assert_eq!(code, "required", "{kind:?} {place}");
                    assert!(secrets.contains_key(named), "{kind:?} {place}: {attr}");
                    assert!(!others || named == secret, "{kind:?} {place}: {attr}");
                }
            }
            let moved = changed(&env, &export, None, given.into()).await.unwrap();
            assert_ne!(
                moved.destination_secrets, export.destination_secrets,
                "{kind:?} {place}: sealed anew"
            );
            // Back to the former server, for the next case.
            let mut back = secrets.clone();
            let was = export.destination_config.get(place).or(secrets.get(place));
            back.insert(place.to_owned(), was.cloned().unwrap_or_default());
            changed(&env, &export, None, back.into()).await.unwrap();
        }
    }
}

async fn a_name_that_leads_out_of_a_providers_domain_is_refused(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = made(&env, s3()).await.unwrap();
    for field in ["region", "bucket_name"] {
        for name in ["evil.example/", "evil.example#", "u@evil.example", "a:1"] {
            let refused = changed(&env, &export, None, json!({ field: name })).await;
            let expected = (
                Some(format!("destination__config__{field}")),
                "invalid_input",
            );
            assert_eq!(violation(&refused.unwrap_err()), expected, "{name}");
        }
    }
}

async fn a_path_that_extends_the_servers_name_is_refused(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let of_databricks =
        |(kind, ..): &(DestinationType, Value, Value)| *kind == DestinationType::Databricks;
    let (kind, mut config, secrets) = all_types().into_iter().find(of_databricks).unwrap();
    let given = config.as_object_mut().unwrap();
    given.extend(secrets.as_object().unwrap().clone());
    let export = made(&env, destination(kind, config)).await.unwrap();
    for (path, code) in [
        ("@evil.example/", Some("invalid_input")),
        (".evil.example/", Some("invalid_input")),
        (":1/", Some("invalid_input")),
        (" ", Some("blank")),
        ("/sql/1.0/warehouses/a", None),
    ] {
        let outcome = changed(&env, &export, None, json!({ "http_path": path })).await;
        let expected = code.map(|code| (Some("destination__config__http_path".to_owned()), code));
        assert_eq!(outcome.err().as_ref().map(violation), expected, "{path}");
    }
}

/// Fields that spoil a good S3 destination, the field at fault, and the code.
fn bad_fields() -> [(Value, &'static str, &'static str); 14] {
    [
        (json!({ "bucket_name": null }), "bucket_name", "null"),
        (json!({ "region": " " }), "region", "blank"),
        (
            json!({ "aws_access_key_id": "" }),
            "aws_access_key_id",
            "blank",
        ),
        (json!({ "prefix": 4 }), "prefix", "invalid_input"),
        (
            json!({ "encryption": "rot13" }),
            "encryption",
            "invalid_choice",
        ),
        (
            json!({ "endpoint_url": "s3" }),
            "endpoint_url",
            "invalid_input",
        ),
        (
            json!({ "include_events": "a" }),
            "include_events",
            "not_a_list",
        ),
        (
            json!({ "max_file_size_mb": 0 }),
            "max_file_size_mb",
            "min_value",
        ),
        (
            json!({ "file_format": "XML" }),
            "file_format",
            "invalid_input",
        ),
        (
            json!({ "compression": "lz4" }),
            "compression",
            "invalid_input",
        ),
        (
            json!({ "file_format": "Arrow", "compression": "gzip" }),
            "compression",
            "invalid_input",
        ),
        (
            json!({ "bucket_name": "My_Bucket" }),
            "bucket_name",
            "invalid_input",
        ),
        (
            json!({ "endpoint_url": "https://s3.example.com/?a=b" }),
            "endpoint_url",
            "invalid_input",
        ),
        (
            json!({ "prefix": "a".repeat(925) }),
            "prefix",
            "invalid_input",
        ),
    ]
}

async fn bad_destinations_are_refused_with_the_field_at_fault(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let table = bad_fields();
    let export = made(&env, s3()).await.unwrap();
    for (bad, field, code) in table {
        let mut new = s3();
        new.config.extend(bad.as_object().unwrap().clone());
        let expected = (Some(format!("destination__config__{field}")), code);
        assert_eq!(
            violation(&made(&env, new).await.unwrap_err()),
            expected,
            "{bad}"
        );
        let error = changed(&env, &export, None, bad.clone()).await.unwrap_err();
        assert_eq!(violation(&error), expected, "{bad}");
    }
}

async fn bucket_rules_of_aws_do_not_apply_to_other_s3_stores(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let elsewhere = json!({ "bucket_name": "My_Bucket", "endpoint_url": "https://s3.example.com" });
    let mut new = s3();
    new.config.extend(elsewhere.as_object().unwrap().clone());
    let export = made(&env, new).await.unwrap();
    // Amazon has no bucket of that name.
    let secrets = json!({ "aws_access_key_id": "AKIA", "aws_secret_access_key": "s3cret" });
    let mut change = json!({ "endpoint_url": null });
    let fields = change.as_object_mut().unwrap();
    fields.extend(secrets.as_object().unwrap().clone());
    let error = changed(&env, &export, None, change).await.unwrap_err();
    let expected = Some("destination__config__bucket_name".to_owned());
    assert_eq!(violation(&error), (expected, "invalid_input"));
    changed(&env, &export, None, json!({ "prefix": "q" }))
        .await
        .unwrap();
}

async fn a_secret_opens_with_its_key_only(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let export = made(&env, s3()).await.unwrap();
    let other = SecretKey::generate().unwrap();
    assert_eq!(secrets_of(&export, &other), Err(SecretError::Sealed));
    let mut moved = made(&env, s3()).await.unwrap();
    moved.destination_secrets = export.destination_secrets.clone();
    assert_eq!(
        secrets_of(&moved, &env.key),
        Err(SecretError::Sealed),
        "it is another export's"
    );
}
