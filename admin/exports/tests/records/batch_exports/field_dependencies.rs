//! Fields of a destination that must be given together.

use super::destinations::{all_types, changed, made};
use super::{TestEnv, destination, violation};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{BatchExport, DestinationType};
use millrace_exports::{DestinationChange, DestinationSpec, FieldNeed, NeededWhen, Sample};
use serde_json::{Map, Value, json};

on_both!(
    a_field_without_its_partner_is_refused_with_the_missing_field,
    a_change_that_leaves_half_is_refused_and_one_that_brings_the_rest_is_not,
    every_dependency_of_every_type_is_enforced,
    a_missing_part_of_a_composite_secret_is_named,
    a_destination_without_a_type_is_refused,
);

/// Destination of a type with more fields, or without those that are null.
fn given(kind: DestinationType, more: &Value) -> DestinationChange {
    let (_, mut config, secrets) = all_types().into_iter().find(|it| it.0 == kind).unwrap();
    let config = config.as_object_mut().unwrap();
    config.extend(secrets.as_object().unwrap().clone());
    for (name, value) in more.as_object().unwrap() {
        match value {
            Value::Null => drop(config.remove(name)),
            value => drop(config.insert(name.clone(), value.clone())),
        }
    }
    destination(kind, Value::Object(config.clone()))
}

/// Type, fields beside or without those of a good one, and the field at fault with its code.
type PartialConfig = (DestinationType, Value, Option<(&'static str, &'static str)>);

fn partial_configs() -> Vec<PartialConfig> {
    use DestinationType::{Databricks, S3, Snowflake};
    let no_key = json!({ "aws_access_key_id": null, "aws_secret_access_key": null });
    let by_password = json!({ "authentication_type": "password", "password": "p" });
    vec![
        (
            S3,
            json!({ "aws_secret_access_key": null }),
            Some(("aws_secret_access_key", "required")),
        ),
        (
            S3,
            json!({ "aws_access_key_id": null }),
            Some(("aws_access_key_id", "required")),
        ),
        (S3, no_key, None),
        (
            S3,
            json!({ "encryption": null }),
            Some(("encryption", "required")),
        ),
        (
            S3,
            json!({ "encryption": "AES256" }),
            Some(("encryption", "invalid_input")),
        ),
        (S3, json!({ "kms_key_id": null }), None),
        (
            Snowflake,
            json!({ "private_key": null }),
            Some(("private_key", "required")),
        ),
        (
            Snowflake,
            json!({ "authentication_type": null }),
            Some(("password", "required")),
        ),
        (
            Snowflake,
            json!({ "authentication_type": "password" }),
            Some(("password", "required")),
        ),
        (Snowflake, by_password.clone(), None),
        (Snowflake, json!({ "private_key_passphrase": null }), None),
        (
            Snowflake,
            {
                let mut passphrase = by_password;
                passphrase["private_key"] = Value::Null;
                passphrase
            },
            Some(("private_key", "required")),
        ),
        (
            Databricks,
            json!({ "client_id": null }),
            Some(("client_id", "required")),
        ),
        (
            Databricks,
            json!({ "client_secret": null }),
            Some(("client_secret", "required")),
        ),
    ]
}

async fn a_field_without_its_partner_is_refused_with_the_missing_field(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    for (kind, more, expected) in partial_configs() {
        let outcome = made(&env, given(kind, &more)).await;
        let expected =
            expected.map(|(name, code)| (Some(format!("destination__config__{name}")), code));
        assert_eq!(
            outcome.err().as_ref().map(violation),
            expected,
            "{kind:?} {more}"
        );
    }
}

async fn a_change_that_leaves_half_is_refused_and_one_that_brings_the_rest_is_not(
    database: TestDatabase,
) {
    let env = TestEnv::open(&database).await;
    let whole = made(&env, given(DestinationType::S3, &json!({})))
        .await
        .unwrap();
    let none = json!({ "aws_access_key_id": null, "aws_secret_access_key": null });
    let without = made(&env, given(DestinationType::S3, &none)).await.unwrap();
    let table: [(&BatchExport, Value, Option<&str>); 6] = [
        // Stored fields count.
        (&whole, json!({ "aws_access_key_id": "AKIB" }), None),
        (
            &whole,
            json!({ "aws_secret_access_key": null }),
            Some("aws_secret_access_key"),
        ),
        (&whole, json!({ "encryption": null }), Some("encryption")),
        (
            &without,
            json!({ "aws_access_key_id": "AKIB" }),
            Some("aws_secret_access_key"),
        ),
        (
            &without,
            json!({ "aws_secret_access_key": "s3cret" }),
            Some("aws_access_key_id"),
        ),
        (
            &without,
            json!({ "aws_access_key_id": "a", "aws_secret_access_key": "b" }),
            None,
        ),
    ];
    for (export, change, missing) in table {
        let outcome = changed(&env, export, None, change.clone()).await;
        let expected =
            missing.map(|name| (Some(format!("destination__config__{name}")), "required"));
        assert_eq!(outcome.err().as_ref().map(violation), expected, "{change}");
    }
}

/// Example of a type with or without the value that makes a field needed.
fn with_need(spec: &DestinationSpec, need: &FieldNeed, is_met: bool) -> Map<String, Value> {
    let mut config = spec.example().as_object().unwrap().clone();
    let example = |name: &str| {
        let mut fields = spec.fields();
        fields.find(|field| field.name == name).unwrap().example
    };
    let (name, value) = match need.when {
        NeededWhen::Given(name) => (name, example(name)),
        NeededWhen::Is(name, value) => (name, Sample::Text(value)),
    };
    config.insert(name.to_owned(), value.into());
    config.insert(need.field.to_owned(), example(need.field).into());
    if !is_met {
        config.remove(need.field);
    }
    config
}

async fn every_dependency_of_every_type_is_enforced(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let mut needs = 0;
    for kind in DestinationType::all() {
        let spec = DestinationSpec::of(kind);
        for need in spec.needs {
            let new = |is_met| destination(kind, with_need(spec, need, is_met).into());
            made(&env, new(true)).await.unwrap();
            let expected = format!("destination__config__{}", need.field);
            let error = made(&env, new(false)).await.unwrap_err();
            assert_eq!(
                violation(&error),
                (Some(expected), "required"),
                "{kind:?} {need:?}"
            );
            needs += 1;
        }
    }
    assert!(needs >= 8, "{needs}");
}

async fn a_missing_part_of_a_composite_secret_is_named(database: TestDatabase) {
    use DestinationType::{AzureBlob, Gcs};
    let env = TestEnv::open(&database).await;
    let key = |text: &str| json!({ "service_account_key": text });
    let connection = |text: &str| json!({ "connection_string": text });
    let table = [
        (
            Gcs,
            key(r#"{"private_key": "a", "private_key_id": "b"}"#),
            "client_email",
        ),
        (
            Gcs,
            key(r#"{"client_email": "a", "private_key_id": "b"}"#),
            "no private_key",
        ),
        (
            Gcs,
            key(r#"{"client_email": "a", "private_key": "b"}"#),
            "private_key_id",
        ),
        (
            Gcs,
            key(r#"{"client_email": "", "private_key": "b", "private_key_id": "c"}"#),
            "client_email",
        ),
        (AzureBlob, connection("AccountName=a"), "AccountKey"),
        (
            AzureBlob,
            connection("AccountName=a;AccountKey="),
            "AccountKey",
        ),
        (
            AzureBlob,
            connection("BlobEndpoint=https://a.example.com"),
            "SharedAccessSignature",
        ),
        (AzureBlob, connection("AccountKey=a"), "AccountName"),
    ];
    for (kind, secret, word) in table {
        let error = made(&env, given(kind, &secret)).await.unwrap_err();
        let (attr, code) = violation(&error);
        let name = secret.as_object().unwrap().keys().next().unwrap();
        let expected = format!("destination__config__{name}");
        assert_eq!((attr, code), (Some(expected), "invalid_input"), "{secret}");
        assert!(error.to_string().contains(word), "{error}");
    }
    let signed = "BlobEndpoint=https://a.example.com;SharedAccessSignature=sv=1";
    made(&env, given(AzureBlob, &connection(signed)))
        .await
        .unwrap();
}

async fn a_destination_without_a_type_is_refused(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let error = made(&env, DestinationChange::default()).await.unwrap_err();
    let expected = (Some("destination__type".to_owned()), "required");
    assert_eq!(violation(&error), expected);
}
