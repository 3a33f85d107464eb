//! Limits of plugins, which are checked before a database is used.

use super::{code_of, create, files, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{CatalogLimits, Patch};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::{
    FileChange, NewPlugin, PLUGIN_FILES_MAX, PLUGIN_SOURCE_BYTES_MAX, PluginFamily, PluginFields,
    PluginRelease,
};
use serde_json::{Value, json};

on_both!(
    lengths_of_fields_are_limited,
    null_characters_are_refused_wherever_they_come_from,
    a_manifest_is_validated_like_the_fields_it_sets,
    an_address_too_long_for_its_index_is_refused,
    the_size_of_a_source_is_limited_and_deleting_is_never_refused,
    a_source_counts_as_json_and_a_larger_old_one_may_stay,
    invalid_releases_are_not_installed,
    free_form_fields_have_a_common_limit,
    plugins_of_an_organization_are_limited,
);

const MIB: usize = 1024 * 1024;
const LIST_BYTES_MAX: usize = 64 * 1024;

async fn free_form_fields_have_a_common_limit(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let half = list(LIST_BYTES_MAX / 2);
    let fields = |metrics: &Value| PluginFields {
        metrics: Patch::Value(Some(metrics.clone())),
        public_jobs: Patch::Value(Some(half.clone())),
        ..PluginFields::default()
    };
    let more = list(LIST_BYTES_MAX / 2 + 1);
    let new = |metrics| NewPlugin {
        fields: fields(metrics),
        ..NewPlugin::default()
    };
    let error = plugins(catalog)
        .create(writer, new(&more))
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (Some("metrics".to_owned()), "max_length"));
    let id = plugins(catalog)
        .create(writer, new(&half))
        .await
        .unwrap()
        .plugin
        .id;
    let error = plugins(catalog)
        .update(writer, id, fields(&more))
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (Some("metrics".to_owned()), "max_length"));
    let less = list(LIST_BYTES_MAX / 4);
    plugins(catalog)
        .update(writer, id, fields(&less))
        .await
        .unwrap();
}

async fn plugins_of_an_organization_are_limited(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let limits = CatalogLimits {
        plugins_max: 2,
        ..CatalogLimits::default()
    };
    let catalog = fixture.catalog.clone().with_limits(limits);
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    for _ in 0..2 {
        plugins(&catalog)
            .create(writer, NewPlugin::default())
            .await
            .unwrap();
    }
    let error = plugins(&catalog)
        .create(writer, NewPlugin::default())
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "invalid_input"));
    assert!(error.to_string().contains("plugins_max"), "{error}");
}

/// List of one text, with so many bytes as JSON.
fn list(bytes: usize) -> Value {
    json!(["x".repeat(bytes - r#"[""]"#.len())])
}

/// Each field with this text or value.
fn fields(text: &str, value: &Value) -> [(&'static str, PluginFields); 5] {
    let none = PluginFields::default;
    [
        (
            "description",
            PluginFields {
                description: Patch::Value(Some(text.to_owned())),
                ..none()
            },
        ),
        (
            "config_schema",
            PluginFields {
                config_schema: Patch::Value(value.clone()),
                ..none()
            },
        ),
        (
            "capabilities",
            PluginFields {
                capabilities: Patch::Value(value.clone()),
                ..none()
            },
        ),
        (
            "metrics",
            PluginFields {
                metrics: Patch::Value(Some(value.clone())),
                ..none()
            },
        ),
        (
            "public_jobs",
            PluginFields {
                public_jobs: Patch::Value(Some(value.clone())),
                ..none()
            },
        ),
    ]
}

async fn lengths_of_fields_are_limited(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let longest = "ü".repeat(LIST_BYTES_MAX / 2);
    for (name, fields) in fields(&longest, &list(LIST_BYTES_MAX)) {
        let id = create(writer, &fixture, name).await.plugin.id;
        let changed = plugins(catalog).update(writer, id, fields).await;
        assert!(changed.is_ok(), "{name}: {changed:?}");
    }
    let id = create(writer, &fixture, "A").await.plugin.id;
    let longer = format!("{longest}x");
    for (name, fields) in fields(&longer, &list(LIST_BYTES_MAX + 1)) {
        let new = NewPlugin {
            fields: fields.clone(),
            ..NewPlugin::default()
        };
        let refused = [
            plugins(catalog).create(writer, new).await.unwrap_err(),
            plugins(catalog)
                .update(writer, id, fields.clone())
                .await
                .unwrap_err(),
            plugins(catalog)
                .update_source(writer, id, fields.clone(), Vec::new())
                .await
                .unwrap_err(),
            plugins(catalog)
                .upgrade(writer, id, fields, None)
                .await
                .unwrap_err(),
        ];
        for error in refused {
            assert_eq!(code_of(&error), (Some(name.to_owned()), "max_length"));
        }
    }
    // Capabilities by a source have the same limit.
    let jobs: String = (0..9000).map(|job| format!("job{job:05},")).collect();
    let source = format!("export const jobs = {{{jobs}}}");
    let changes = files(&[("index.ts", Some(&source))]);
    let error = plugins(catalog)
        .update_source(writer, id, PluginFields::default(), changes)
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (Some("index.ts".to_owned()), "max_length"));
}

async fn null_characters_are_refused_wherever_they_come_from(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    for value in [json!("a\0b"), json!({"a\0b": 1}), json!([{"a": ["\0"]}])] {
        for (name, fields) in fields("a\0b", &value) {
            let error = plugins(catalog)
                .update(writer, id, fields)
                .await
                .unwrap_err();
            assert_eq!(code_of(&error), (Some(name.to_owned()), "invalid_input"));
        }
    }
    let table = [
        ("a\0b", "text"),
        ("a.js", "a\0b"),
        ("plugin.json", r#"{"name": "a\u0000b"}"#),
        ("plugin.json", r#"{"config": [{"key": "a\u0000b"}]}"#),
        ("plugin.json", r#"{"config": {"a\u0000b": 1}}"#),
    ];
    for (name, text) in table {
        let error = plugins(catalog)
            .update_source(writer, id, none(), files(&[(name, Some(text))]))
            .await
            .unwrap_err();
        let blamed = (Some(name.to_owned()), "invalid_input");
        assert_eq!(code_of(&error), blamed, "{text}");
    }
    let error = plugins(catalog)
        .set_latest_tag(writer, id, Some("1\0".to_owned()))
        .await
        .unwrap_err();
    let blamed = (Some("latest_tag".to_owned()), "invalid_input");
    assert_eq!(code_of(&error), blamed);
}

async fn a_manifest_is_validated_like_the_fields_it_sets(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let schema = list(LIST_BYTES_MAX + 1);
    let table = [
        (json!({"name": "ü".repeat(200)}), true),
        (json!({"name": "ü".repeat(201)}), false),
        (json!({"config": list(LIST_BYTES_MAX)}), true),
        (json!({"config": schema}), false),
        (json!({"config": null, "name": null}), true),
    ];
    for (manifest, fits) in table {
        let text = manifest.to_string();
        let changes = files(&[("plugin.json", Some(&text))]);
        let changed = plugins(catalog).update_source(writer, id, PluginFields::default(), changes);
        match changed.await {
            Ok(_) => assert!(fits, "{text}"),
            Err(error) => {
                let blamed = (Some("plugin.json".to_owned()), "max_length");
                assert_eq!((code_of(&error), false), (blamed, fits), "{text}");
            }
        }
    }
}

async fn an_address_too_long_for_its_index_is_refused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    // All characters differ, so that the index cannot compress them.
    let letters = |first: u32, count: u32| -> String {
        (first..first + count).filter_map(char::from_u32).collect()
    };
    let table = [
        (letters(0x4e00, 782), None),
        (letters(0x1_0400, 590), None),
        (letters(0x1_0400, 700), Some("max_length")),
        (letters(0x4e00, 783), Some("max_length")),
    ];
    for (path, code) in table {
        let new = NewPlugin {
            url: Some(format!("https://a.example/{path}")),
            ..NewPlugin::default()
        };
        let bytes = path.len();
        let made = plugins(&fixture.catalog).create(writer, new).await;
        let found = made.err().map(|error| code_of(&error));
        let expected = code.map(|code| (Some("url".to_owned()), code));
        assert_eq!(found, expected, "{bytes} bytes");
    }
}

async fn the_size_of_a_source_is_limited_and_deleting_is_never_refused(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    let text = "x".repeat(MIB - 1);
    for name in 0..PLUGIN_SOURCE_BYTES_MAX / MIB {
        let changes = files(&[(&name.to_string(), Some(&text))]);
        let written = plugins(catalog).update_source(writer, id, none(), changes);
        written.await.unwrap();
    }
    let longer = format!("{text}x");
    for (changes, blamed) in [
        (files(&[("a", Some(""))]), "a"),
        (files(&[("0", Some(&*longer)), ("a", Some(""))]), "0"),
    ] {
        let refused = plugins(catalog).update_source(writer, id, none(), changes);
        let error = refused.await.unwrap_err();
        assert_eq!(code_of(&error), (Some(blamed.to_owned()), "max_length"));
    }
    let less = files(&[("0", None), ("a", Some(&*text))]);
    let written = plugins(catalog)
        .update_source(writer, id, none(), less)
        .await;
    assert_eq!(written.unwrap().files.len(), PLUGIN_SOURCE_BYTES_MAX / MIB);

    let name = |file: usize| FileChange {
        name: format!("f{file}"),
        source: Some(String::new()),
    };
    let many = (0..=PLUGIN_FILES_MAX).map(name).collect();
    let refused = plugins(catalog).update_source(writer, id, none(), many);
    assert_eq!(code_of(&refused.await.unwrap_err()).1, "max_length");
}

async fn a_source_counts_as_json_and_a_larger_old_one_may_stay(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginFields::default;
    // Six bytes of JSON each.
    let fits = "\u{1}".repeat((PLUGIN_SOURCE_BYTES_MAX - 1) / 6);
    let more = format!("{fits}\u{1}");
    let write = |text: &str| {
        let changes = files(&[("a", Some(text))]);
        plugins(catalog).update_source(writer, id, none(), changes)
    };
    let error = write(&more).await.unwrap_err();
    assert_eq!(code_of(&error), (Some("a".to_owned()), "max_length"));
    write(&fits).await.unwrap();

    // An older source, from when sources counted by their own bytes.
    let older = format!("UPDATE plugin_source_files SET source = '{more}{more}'");
    database.execute(&older).await.unwrap();
    let read = plugins(catalog).files(writer.organization_id, PluginFamily::Plugins, id);
    let read = read.await.unwrap().unwrap();
    assert_eq!(read.files[0].1.len(), 2 * more.len());
    let error = write(&format!("{more}{more}x")).await.unwrap_err();
    assert_eq!(code_of(&error), (Some("a".to_owned()), "max_length"));
    write(&format!("{more}{fits}xxxxxx")).await.unwrap();
}

async fn invalid_releases_are_not_installed(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let (catalog, writer) = (&fixture.catalog, writer_in(&fixture, PluginFamily::Plugins));
    let id = create(writer, &fixture, "A").await.plugin.id;
    let none = PluginRelease::default;
    let file = |name: &str, text: &str| vec![(name.to_owned(), text.to_owned())];
    let table = [
        (
            "max_length",
            PluginRelease {
                name: "x".repeat(201),
                ..none()
            },
        ),
        (
            "invalid_input",
            PluginRelease {
                tag: "1\0".to_owned(),
                ..none()
            },
        ),
        (
            "max_length",
            PluginRelease {
                config_schema: list(LIST_BYTES_MAX + 1),
                ..none()
            },
        ),
        (
            "invalid_input",
            PluginRelease {
                files: file("", "a"),
                ..none()
            },
        ),
        (
            "invalid_input",
            PluginRelease {
                files: file("a", "\0"),
                ..none()
            },
        ),
        (
            "max_length",
            PluginRelease {
                files: file("a", &"x".repeat(PLUGIN_SOURCE_BYTES_MAX)),
                ..none()
            },
        ),
    ];
    for (code, release) in table {
        let new = NewPlugin {
            release: Some(release.clone()),
            ..NewPlugin::default()
        };
        let refused = [
            plugins(catalog).create(writer, new).await.unwrap_err(),
            plugins(catalog)
                .upgrade(writer, id, PluginFields::default(), Some(release))
                .await
                .unwrap_err(),
        ];
        for error in refused {
            assert_eq!(code_of(&error), (Some("url".to_owned()), code), "{error}");
        }
    }
}
