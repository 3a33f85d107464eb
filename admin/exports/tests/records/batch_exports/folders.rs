//! Exports to files from before organizations had folders of their own.

use super::TestEnv;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, Catalog, DestinationType};
use millrace_exports::{
    BatchExportChange, BatchExports, DestinationChange, DestinationLimits, ExportLogFilter,
    ExportLogs, ExportPlace, ExportWriter, SecretKey,
};
use millrace_organizations::testing::fixture::ALL;
use millrace_organizations::{BootstrapOptions, Organizations, Projects, bootstrap};
use serde_json::json;
use std::path::Path;
use uuid::Uuid;

on_both!(a_new_export_has_its_organization_s_folder,);
on_both!(empty: exports_keep_their_folders_unless_others_have_files_there);

static SYSTEM: Actor = Actor::command_line();

/// Writes an export to files as the version before wrote it.
async fn written(database: &TestDatabase, organization: Uuid, project_id: i64, path: &str) -> Uuid {
    let id = Uuid::now_v7();
    let config = json!({"path": path});
    let (id_text, organization) = (
        database.uuid_literal(id),
        database.uuid_literal(organization),
    );
    let row = format!(
        "INSERT INTO batch_exports (id, organization_id, team_id, name, model, destination_type, \
         destination_config, destination_secrets, interval, paused, runs_count, created_at, \
         last_updated_at) VALUES ({id_text}, {organization}, {project_id}, 'files', 'events', \
         'FileSystem', '{config}', '{{}}', 'hour', false, 0, 1000, 1000)"
    );
    database.execute(&row).await.unwrap();
    id
}

async fn exports_keep_their_folders_unless_others_have_files_there(database: TestDatabase) {
    let old = database.open_before("m0036_export_folders").await.unwrap();
    let made = bootstrap(&old, BootstrapOptions::default()).await;
    let made = made.unwrap().unwrap();
    let eve = Organizations::new(&old)
        .create(&SYSTEM, "Eve", None)
        .await
        .unwrap();
    let acme = made.organization_id;
    let of = |id| {
        let old = old.clone();
        async move { Projects::new(&old).list_all(Some(id)).await.unwrap()[0].id }
    };
    let (acme_project, eve_project) = (of(acme).await, of(eve.id).await);
    old.close().await.unwrap();
    let planted = format!("{acme}/lake");
    let table = [
        (acme, acme_project, "lake/acme", false),
        (acme, acme_project, "lake/acme/{year}", false),
        (acme, acme_project, "own/{year}", true),
        (acme, acme_project, "own", true),
        (eve.id, eve_project, "lake/acme", false),
        (eve.id, eve_project, "eve", true),
        (eve.id, eve_project, planted.as_str(), false),
    ];
    let mut ids = Vec::new();
    for (organization, project_id, path, _) in table {
        ids.push(written(&database, organization, project_id, path).await);
    }
    let catalog = Catalog::open(database.url()).await.unwrap();
    for (id, (organization_id, _, path, keeps)) in ids.iter().zip(table) {
        let place = ExportPlace {
            organization_id,
            project_id: None,
        };
        let seen = BatchExports::new(&catalog)
            .get(place, *id)
            .await
            .unwrap()
            .unwrap();
        let export = seen.export;
        assert_eq!(
            (export.files_at_root, export.paused),
            (keeps, !keeps),
            "{path}"
        );
        let filter = ExportLogFilter::default();
        let lines = ExportLogs::new(&catalog).list(place, *id, &filter, ALL);
        let lines = lines.await.unwrap().unwrap().rows;
        assert_eq!(lines.len(), usize::from(!keeps), "{path}");
        assert!(lines.iter().all(|line| !line.message.contains("lake")));
    }
    let place = ExportPlace {
        organization_id: acme,
        project_id: None,
    };
    for (path, stays) in [("own", true), ("./own", false), ("own", false)] {
        let kept = change_path(&catalog, place, ids[3], path).await;
        assert_eq!(kept, stays, "{path}");
    }
}

/// Gives an export a path; answers whether its files stay below the folder of all exports.
async fn change_path(catalog: &Catalog, place: ExportPlace, id: Uuid, path: &str) -> bool {
    let key = SecretKey::generate().unwrap();
    let writer = ExportWriter {
        actor: &SYSTEM,
        place,
        key: &key,
        limits: DestinationLimits {
            allow_private: false,
            is_public: |_| true,
            export_root: Some(Path::new("/exports")),
        },
    };
    let change = BatchExportChange {
        destination: Some(DestinationChange {
            kind: None,
            config: json!({"path": path}).as_object().unwrap().clone(),
        }),
        ..BatchExportChange::default()
    };
    let changed = BatchExports::new(catalog).update(writer, id, change).await;
    changed.unwrap().export.files_at_root
}

async fn a_new_export_has_its_organization_s_folder(database: TestDatabase) {
    let env = TestEnv::open(&database).await;
    let mut new = super::new_export();
    new.destination = super::destination(DestinationType::FileSystem, json!({"path": "lake"}));
    assert!(!env.make(new).await.unwrap().files_at_root);
}
