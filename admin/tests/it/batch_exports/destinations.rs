//! Destinations by type: the published schema, the page of examples, refusals.

use super::page::PAGE;
use super::{ORGANIZATION, PROJECT, made};
use crate::Fixture;
use millrace_admin::ApiConfig;
use millrace_catalog::DestinationType;
use millrace_exports::DestinationSpec;
use serde_json::{Value, json};

on_both!(
    every_example_of_the_page_is_accepted,
    every_field_is_published_with_description_and_example,
    responses_match_the_schema_and_have_no_secrets,
    an_invalid_field_is_named_by_the_schema_of_the_sent_type,
    a_field_without_the_field_that_it_requires_is_refused,
    the_docs_page_shows_every_type_of_destination,
);

async fn fixture() -> Fixture {
    let config = ApiConfig {
        export_root: Some("/exports".into()),
        ..ApiConfig::default()
    };
    Fixture::with(config).await
}

/// Bodies on the page of examples, by type.
fn examples() -> Vec<(DestinationType, Value)> {
    let page = std::fs::read_to_string(PAGE).unwrap();
    let blocks = page.split("```json\n").skip(1);
    let bodies: Vec<Value> = blocks
        .map(|block| serde_json::from_str(block.split("```").next().unwrap()).unwrap())
        .collect();
    let types: Vec<_> = DestinationType::all().collect();
    assert_eq!(bodies.len(), types.len());
    types.into_iter().zip(bodies).collect()
}

async fn every_example_of_the_page_is_accepted() {
    let fixture = fixture().await;
    for all in [ORGANIZATION, PROJECT] {
        for (kind, example) in examples() {
            let made = made(&fixture, all, &example).await;
            assert_eq!(made.body["destination"]["type"], kind.name());
        }
    }
}

/// Schema of the document by its name, with all schemas that it refers to.
async fn schema(fixture: &Fixture, name: &str) -> Value {
    let document = fixture.get("/api/schema/").await.body;
    let mut schema = document["components"]["schemas"][name].clone();
    assert!(schema.is_object(), "{name}");
    schema["components"] = document["components"].clone();
    schema
}

async fn every_field_is_published_with_description_and_example() {
    let fixture = fixture().await;
    let new = schema(&fixture, "NewBatchExport").await;
    let all = &new["components"]["schemas"];
    let validator = jsonschema::validator_for(&new).unwrap();
    let destination = &all["NewBatchExportDestination"];
    assert_eq!(destination["discriminator"]["propertyName"], "type");
    let kinds = destination["oneOf"].as_array().unwrap();
    assert_eq!(kinds.len(), DestinationType::all().count());
    let mapping = destination["discriminator"]["mapping"].as_object().unwrap();
    let page = std::fs::read_to_string(PAGE).unwrap();
    for (kind, example) in examples() {
        assert!(validator.is_valid(&example), "{kind:?}");
        let name = kind.name();
        let of_type = &new.pointer(mapping[&name].as_str().unwrap().trim_start_matches('#'));
        let of_type = of_type.unwrap_or_else(|| panic!("{name}"));
        assert_eq!(of_type["properties"]["type"]["const"], name.as_str());
        assert_eq!(of_type["examples"][0], example["destination"]);
        let config = &all[format!("{name}Config")];
        let section = page.split(&format!("\n## {name}\n")).nth(1).unwrap();
        let section = section.split("\n## ").next().unwrap();
        for field in DestinationSpec::of(kind).fields() {
            let property = &config["properties"][field.name];
            assert_eq!(
                property["description"], field.about,
                "{kind:?} {}",
                field.name
            );
            assert!(
                property["examples"][0] != Value::Null,
                "{kind:?} {}",
                field.name
            );
            assert_eq!(
                property["writeOnly"] == true,
                field.is_secret,
                "{}",
                field.name
            );
            let answered = &all[format!("{name}PublicConfig")]["properties"][field.name];
            assert_eq!(answered.is_null(), field.is_secret, "{}", field.name);
            let is_named = section.contains(&format!("\n| `{}` |", field.name));
            assert!(is_named, "{kind:?} {} is not on the page", field.name);
        }
    }
    let dependent = &all["S3Config"]["dependentRequired"];
    assert_eq!(
        dependent["aws_access_key_id"],
        json!(["aws_secret_access_key"])
    );
    assert!(!new.to_string().contains("x-checked-later"));
}

async fn responses_match_the_schema_and_have_no_secrets() {
    let fixture = fixture().await;
    let schema = schema(&fixture, "BatchExport").await;
    let validator = jsonschema::validator_for(&schema).unwrap();
    for (kind, example) in examples() {
        let answer = made(&fixture, ORGANIZATION, &example).await.body;
        let errors: Vec<_> = validator.iter_errors(&answer).collect();
        assert!(errors.is_empty(), "{kind:?}: {errors:?}");
        for field in DestinationSpec::of(kind).fields() {
            let answered = answer["destination"]["config"].get(field.name);
            let is_sent = field.is_required || field.is_shown;
            assert_eq!(
                answered.is_some(),
                is_sent && !field.is_secret,
                "{}",
                field.name
            );
        }
    }
}

/// Invalid destination, with the code and the field of its refusal.
type Bad = (Value, &'static str, &'static str);

fn bad_new() -> Vec<Bad> {
    vec![
        (json!({}), "required", "type"),
        (json!({ "type": null }), "null", "type"),
        (json!({ "type": 5 }), "invalid_choice", "type"),
        (
            json!({ "type": "FTP", "config": {} }),
            "invalid_choice",
            "type",
        ),
        (
            json!({ "type": "s3", "config": { "bucket_name": 5 } }),
            "invalid_choice",
            "type",
        ),
        (json!({ "config": { "prefix": 5 } }), "required", "type"),
        (json!({ "type": "GCS" }), "required", "config"),
        (json!({ "type": "GCS", "config": null }), "null", "config"),
        (
            json!({ "type": "GCS", "config": [] }),
            "invalid_input",
            "config",
        ),
        (
            json!({ "type": "GCS", "config": {} }),
            "required",
            "config__bucket_name",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": 5 } }),
            "invalid_input",
            "config__bucket_name",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": null } }),
            "null",
            "config__bucket_name",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": "" } }),
            "blank",
            "config__bucket_name",
        ),
    ]
}

fn bad_configs() -> Vec<Bad> {
    vec![
        (
            json!({ "type": "BigQuery", "config": { "project_id": "p" } }),
            "required",
            "config__dataset_id",
        ),
        (
            json!({ "type": "NoOp", "config": { "include_events": "a" } }),
            "not_a_list",
            "config__include_events",
        ),
        (
            json!({ "type": "NoOp", "config": { "include_events": ["a", 5] } }),
            "invalid_input",
            "config__include_events__1",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": "bucket", "file_format": "XML" } }),
            "invalid_input",
            "config__file_format",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": "bucket", "compression": "lz4" } }),
            "invalid_input",
            "config__compression",
        ),
        (
            json!({ "type": "GCS", "config": { "bucket_name": "A bucket" } }),
            "invalid_input",
            "config__bucket_name",
        ),
        (
            json!({ "type": "NoOp", "config": { "arg": "x".repeat(20_001) } }),
            "max_length",
            "config__arg",
        ),
    ]
}

fn bad_changes() -> Vec<Bad> {
    vec![
        (
            json!({ "config": { "prefix": 5 } }),
            "invalid_input",
            "config__prefix",
        ),
        (
            json!({ "type": "S3", "config": { "prefix": 5 } }),
            "invalid_input",
            "config__prefix",
        ),
        (
            json!({ "type": "S3", "config": { "prefix": null } }),
            "null",
            "config__prefix",
        ),
        (json!({ "config": "x" }), "invalid_input", "config"),
        (json!({ "type": "FTP" }), "invalid_choice", "type"),
        (json!({ "type": null, "config": {} }), "null", "type"),
        (
            json!({ "type": "GCS", "config": {} }),
            "required",
            "config__bucket_name",
        ),
    ]
}

async fn an_invalid_field_is_named_by_the_schema_of_the_sent_type() {
    let fixture = fixture().await;
    for (destination, code, attr) in bad_new().into_iter().chain(bad_configs()) {
        let new = json!({ "name": "New", "interval": "hour", "destination": destination });
        let answer = fixture.call("POST", ORGANIZATION, &new).await;
        let attr = format!("destination__{attr}");
        assert_eq!(
            answer.error(),
            (400, code, Some(attr.as_str())),
            "{destination}"
        );
    }
    let unknown = json!({ "type": "Nowhere", "config": {} });
    let new = json!({ "name": "New", "interval": "hour", "destination": unknown });
    let answer = fixture.call("POST", ORGANIZATION, &new).await;
    let detail = answer.body["detail"].as_str().unwrap();
    for kind in DestinationType::all() {
        assert!(detail.contains(&kind.name()), "{detail}");
    }
    let misspelt = json!({ "type": "GCS", "config": { "bukcet_name": "bucket" } });
    let new = json!({ "name": "New", "interval": "hour", "destination": misspelt });
    let answer = fixture.call("POST", ORGANIZATION, &new).await;
    let missing = Some("destination__config__bucket_name");
    assert_eq!(answer.error(), (400, "required", missing));
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("\"bukcet_name\""), "{detail}");
    // Unknown fields are ignored, and a change need not name the type.
    let mut new = examples().remove(0).1;
    new["destination"]["config"]["url"] = json!(5);
    let made = made(&fixture, ORGANIZATION, &new).await;
    let path = format!("{ORGANIZATION}{}/", made.body["id"].as_str().unwrap());
    for (destination, code, attr) in bad_changes() {
        let change = json!({ "destination": destination });
        let answer = fixture.call("PATCH", &path, &change).await;
        let attr = format!("destination__{attr}");
        assert_eq!(
            answer.error(),
            (400, code, Some(attr.as_str())),
            "{destination}"
        );
    }
    for destination in [
        json!({}),
        json!({ "config": { "prefix": "q", "compression": null } }),
    ] {
        let answer = fixture
            .call("PATCH", &path, &json!({ "destination": destination }))
            .await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

async fn a_field_without_the_field_that_it_requires_is_refused() {
    let fixture = fixture().await;
    let table = [
        (
            DestinationType::S3,
            json!({ "aws_secret_access_key": null }),
            "aws_secret_access_key",
        ),
        (
            DestinationType::S3,
            json!({ "kms_key_id": "k" }),
            "encryption",
        ),
        (
            DestinationType::Snowflake,
            json!({ "private_key": null }),
            "private_key",
        ),
        (
            DestinationType::Snowflake,
            json!({ "authentication_type": "password" }),
            "password",
        ),
        (
            DestinationType::Databricks,
            json!({ "client_id": null }),
            "client_id",
        ),
    ];
    for (kind, more, missing) in table {
        let of_type = examples().into_iter().find(|(one, _)| *one == kind);
        let mut example = of_type.unwrap().1;
        let whole = made(&fixture, ORGANIZATION, &example).await;
        let path = format!("{ORGANIZATION}{}/", whole.body["id"].as_str().unwrap());
        let config = example["destination"]["config"].as_object_mut().unwrap();
        for (name, value) in more.as_object().unwrap() {
            match value {
                Value::Null => drop(config.remove(name)),
                value => drop(config.insert(name.clone(), value.clone())),
            }
        }
        let attr = format!("destination__config__{missing}");
        let refused = (400, "required", Some(attr.as_str()));
        let answer = fixture.call("POST", ORGANIZATION, &example).await;
        assert_eq!(answer.error(), refused, "{kind:?} {more}");
        let detail = answer.body["detail"].as_str().unwrap();
        let fields = DestinationSpec::of(kind).fields();
        let mut others = fields.filter(|field| field.name != missing);
        assert!(
            others.any(|field| detail == format!("Give this, too: {} needs it.", field.name)),
            "{detail}"
        );
        let change = json!({ "destination": { "config": more } });
        let answer = fixture.call("PATCH", &path, &change).await;
        assert_eq!(answer.error(), refused, "{kind:?} {more}");
    }
}

async fn the_docs_page_shows_every_type_of_destination() {
    let fixture = fixture().await;
    let page = fixture.page("/api/docs/").await;
    for kind in DestinationType::all() {
        let id = format!("id=\"NewBatchExportDestination-{}\"", kind.name());
        assert!(page.contains(&id), "{kind:?}");
        for field in DestinationSpec::of(kind).fields() {
            assert!(
                page.contains(&format!("<code>{}</code>", field.name)),
                "{}",
                field.name
            );
        }
    }
    assert!(
        page.contains("&#34;events&#34;, &#34;persons&#34;"),
        "what a model is"
    );
    let row = |name: &str| {
        let rows = page
            .split("<tr>")
            .filter(|row| row.starts_with(&format!("<td><code>{name}<")));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    for name in ["destination", "model"] {
        assert!(!row(name).is_empty());
        assert!(
            row(name).iter().all(|row| !row.contains("anything")),
            "{name}"
        );
    }
}
