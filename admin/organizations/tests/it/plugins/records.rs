//! Plugins in their families and organizations.

use super::{code_of, create, foreign, named, plugins, writer_in};
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{PageRequest, Patch};
use millrace_organizations::testing::fixture::{ALL, Fixture};
use millrace_organizations::{NewPlugin, PluginFamily, PluginFields, PluginWriter};
use serde_json::json;

on_both!(
    a_plugin_is_listed_in_the_families_of_its_capabilities,
    plugins_are_paged_oldest_first_and_stay_in_their_organization,
    global_plugins_are_seen_by_all_and_changed_by_the_operator,
    errors_name_the_field_at_fault,
);

async fn names(fixture: &Fixture, family: PluginFamily) -> Vec<String> {
    let page = plugins(&fixture.catalog)
        .list(fixture.organization_id, family, ALL)
        .await
        .unwrap();
    assert_eq!(page.count, page.rows.len() as u64);
    page.rows
        .into_iter()
        .filter_map(|seen| seen.plugin.name)
        .collect()
}

async fn a_plugin_is_listed_in_the_families_of_its_capabilities(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    for family in PluginFamily::ALL {
        create(writer_in(&fixture, family), &fixture, family.segment()).await;
    }
    for family in PluginFamily::ALL {
        let seen = names(&fixture, family).await;
        match family {
            PluginFamily::Plugins => assert_eq!(seen.len(), 5),
            // Plugins without capabilities count as frontend apps.
            PluginFamily::FrontendApps => assert_eq!(seen, ["plugins", "pipeline_frontend_apps"]),
            _ => assert_eq!(seen, [family.segment()]),
        }
    }
    let mut new = named("both");
    let capabilities = json!({"methods": ["processEvent", "onEvent"]});
    new.fields.capabilities = Patch::Value(capabilities.clone());
    let both = plugins(&fixture.catalog)
        .create(writer_in(&fixture, PluginFamily::Plugins), new)
        .await
        .unwrap();
    assert_eq!(both.plugin.capabilities, capabilities);
    let id = both.plugin.id;
    for (family, is_seen) in [
        (PluginFamily::Destinations, true),
        (PluginFamily::Transformations, true),
        (PluginFamily::ImportApps, false),
        (PluginFamily::FrontendApps, false),
    ] {
        let found = plugins(&fixture.catalog)
            .get(fixture.organization_id, family, id)
            .await
            .unwrap();
        assert_eq!(found.is_some(), is_seen, "{family:?}");
    }
    // A change may take a plugin out of its family; the plugin is returned all the same.
    let fields = PluginFields {
        capabilities: Patch::Value(json!({"methods": ["onEvent"]})),
        ..PluginFields::default()
    };
    let writer = writer_in(&fixture, PluginFamily::Transformations);
    let changed = plugins(&fixture.catalog)
        .update(writer, id, fields.clone())
        .await
        .unwrap();
    assert!(!changed.plugin.is_transformation);
    let error = plugins(&fixture.catalog)
        .update(writer, id, fields)
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "not_found"));
}

async fn plugins_are_paged_oldest_first_and_stay_in_their_organization(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    for name in ["A", "B", "C"] {
        create(writer_in(&fixture, PluginFamily::Plugins), &fixture, name).await;
    }
    let theirs = create(foreign(&fixture), &fixture, "Theirs").await;
    assert_eq!(theirs.organization_name, "Foreign");
    assert_eq!(
        names(&fixture, PluginFamily::Plugins).await,
        ["A", "B", "C"]
    );
    let page = PageRequest {
        limit: 2,
        offset: 1,
    };
    let part = plugins(catalog)
        .list(fixture.organization_id, PluginFamily::Plugins, page)
        .await
        .unwrap();
    let part_names: Vec<_> = part
        .rows
        .iter()
        .filter_map(|seen| seen.plugin.name.as_deref())
        .collect();
    assert_eq!((part.count, &part_names[..]), (3, &["B", "C"][..]));
    assert_eq!(part.rows[0].organization_name, "Default organization");
    let mine = writer_in(&fixture, PluginFamily::Plugins);
    let id = theirs.plugin.id;
    assert!(
        plugins(catalog)
            .get(fixture.organization_id, PluginFamily::Plugins, id)
            .await
            .unwrap()
            .is_none()
    );
    let refused = [
        plugins(catalog)
            .update(mine, id, PluginFields::default())
            .await
            .unwrap_err(),
        plugins(catalog).delete(mine, id).await.unwrap_err(),
        plugins(catalog)
            .update_source(mine, id, PluginFields::default(), Vec::new())
            .await
            .unwrap_err(),
    ];
    for error in refused {
        assert_eq!(code_of(&error), (None, "not_found"));
    }
    plugins(catalog)
        .delete(foreign(&fixture), id)
        .await
        .unwrap();
    let error = plugins(catalog)
        .delete(foreign(&fixture), id)
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "not_found"));
}

async fn global_plugins_are_seen_by_all_and_changed_by_the_operator(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let plugins = plugins(catalog);
    let operator = PluginWriter {
        is_operator: true,
        ..foreign(&fixture)
    };
    let mut new = named("For all");
    new.fields.is_global = Patch::Value(true);
    let error = plugins
        .create(foreign(&fixture), new.clone())
        .await
        .unwrap_err();
    assert_eq!(code_of(&error), (None, "forbidden"));
    let id = plugins.create(operator, new).await.unwrap().plugin.id;
    assert_eq!(names(&fixture, PluginFamily::Plugins).await, ["For all"]);

    let rename = named("Renamed").fields;
    let local = PluginFields {
        is_global: Patch::Value(false),
        ..PluginFields::default()
    };
    let mine = PluginWriter {
        is_operator: true,
        ..writer_in(&fixture, PluginFamily::Plugins)
    };
    for (who, fields) in [
        (mine, rename.clone()),
        (foreign(&fixture), rename.clone()),
        (foreign(&fixture), local.clone()),
    ] {
        let error = plugins.update(who, id, fields).await.unwrap_err();
        assert_eq!(code_of(&error), (None, "forbidden"));
    }
    let error = plugins.delete(operator, id).await.unwrap_err();
    assert_eq!(code_of(&error), (None, "invalid_input"));
    let seen = plugins
        .set_latest_tag(mine, id, Some("2".to_owned()))
        .await
        .unwrap();
    assert_eq!(seen.plugin.latest_tag.as_deref(), Some("2"));
    let kept = plugins
        .get(fixture.foreign_id, PluginFamily::Plugins, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(kept.plugin.latest_tag, None, "it is not ours to keep");
    plugins.update(operator, id, local.clone()).await.unwrap();
    assert!(names(&fixture, PluginFamily::Plugins).await.is_empty());
    // Sending the present value needs no operator.
    plugins.update(foreign(&fixture), id, local).await.unwrap();
    plugins.delete(foreign(&fixture), id).await.unwrap();
}

async fn errors_name_the_field_at_fault(database: TestDatabase) {
    let fixture = Fixture::open(&database).await;
    let catalog = &fixture.catalog;
    let long = |chars: usize| Patch::Value(Some("ü".repeat(chars)));
    let with = |fields: PluginFields| NewPlugin {
        fields,
        ..NewPlugin::default()
    };
    let at = |url: &str| NewPlugin {
        url: Some(url.to_owned()),
        ..NewPlugin::default()
    };
    let taken = "https://github.com/a/b";
    let writer = writer_in(&fixture, PluginFamily::Plugins);
    plugins(catalog).create(writer, at(taken)).await.unwrap();
    plugins(catalog)
        .create(foreign(&fixture), at(taken))
        .await
        .unwrap();
    let none = PluginFields::default;
    let table = [
        (
            with(PluginFields {
                name: long(201),
                ..none()
            }),
            "name",
            "max_length",
        ),
        (
            with(PluginFields {
                tag: long(201),
                ..none()
            }),
            "tag",
            "max_length",
        ),
        (
            with(PluginFields {
                icon: long(801),
                ..none()
            }),
            "icon",
            "max_length",
        ),
        (
            at(&format!("https://a.example/{}", "x".repeat(800))),
            "url",
            "max_length",
        ),
        (at("ftp://a.example/"), "url", "invalid_input"),
        (at("nothing"), "url", "invalid_input"),
        (at(taken), "url", "unique"),
    ];
    for (new, field, code) in table {
        let error = plugins(catalog).create(writer, new).await.unwrap_err();
        assert_eq!(code_of(&error), (Some(field.to_owned()), code), "{error}");
    }
    let most = with(PluginFields {
        name: long(200),
        icon: long(800),
        ..none()
    });
    plugins(catalog).create(writer, most).await.unwrap();
}
