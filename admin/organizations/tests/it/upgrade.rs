//! Upgrade of a catalog of commit 4bbccd5, with data in it.
//!
//! The rows are inserted by SQL as that version wrote them: they must never be edited.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{
    Actor, Catalog, FeatureKeys, Level, NodeStarts, Nodes, Organization, ProjectId, ProjectKeys,
    Published, Scopes, UtcTime,
};
use millrace_organizations::testing::test_env::FIRST;
use millrace_organizations::{
    Caller, Domains, Invites, Members, NewDomain, NewInvite, NewRole, Organizations, PersonalKeys,
    ProjectKeyChanges, Projects, ProxyRecords, Roles, Users,
};
use millrace_rows::{Micros, TestClock};
use std::sync::Arc;
use uuid::{Uuid, uuid};

on_both!(empty:
    everything_of_commit_4bbccd5_is_kept,
    organizations_of_commit_4bbccd5_can_use_newer_resources,
    older_proxy_records_are_kept_and_block_only_if_proven,
    older_nodes_accept_folders_without_counted_starts,
);

const NOW: i64 = 1_790_000_000_000_000;

const ACME: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6071");
const ANNS_MEMBERSHIP: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6072");
const BOBS_MEMBERSHIP: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6073");
const ANN: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6074");
const BOB: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6075");
const PROJECT: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6076");
const KEYLESS: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6077");
const ANNS_KEY: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6078");
const BOBS_KEY: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f6079");
const REVOKED_KEY: Uuid = uuid!("0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f607a");

const ANNS_VALUE: &str = "phx_anns0personal0key0of0the0first0schema0S7ltJ";
const BOBS_VALUE: &str = "phx_bobs0personal0key0of0the0first0schema2jE5Nr";
const REVOKED_VALUE: &str = "phx_anns0revoked00key0of0the0first0schema0abaVR";
const PROJECT_VALUE: &str = "phc_the0project0key00of0the0first0schema04L5m9T";

fn rows(database: &TestDatabase) -> [String; 6] {
    let id = |id: Uuid| database.uuid_literal(id);
    let (acme, ann, bob) = (id(ACME), id(ANN), id(BOB));
    let (project, keyless) = (id(PROJECT), id(KEYLESS));
    let (anns_place, bobs_place) = (id(ANNS_MEMBERSHIP), id(BOBS_MEMBERSHIP));
    let (anns_key, bobs_key, revoked) = (id(ANNS_KEY), id(BOBS_KEY), id(REVOKED_KEY));
    [
        format!(
            "INSERT INTO organizations (id, name, slug, created_at, updated_at, \
             is_member_join_email_enabled, enforce_2fa, members_can_write_pipelines, \
             plugins_access_level, customer_id, disabled_features, member_count) VALUES \
             ({acme}, 'Acme', 'acme', 1000, 2000, false, true, true, 9, 'c1', '[\"saml\"]', 2)"
        ),
        format!(
            "INSERT INTO users (uuid, distinct_id, email, first_name, last_name, \
             is_email_verified, is_active, created_at, updated_at) VALUES \
             ({ann}, 'ann', 'ann@example.com', 'Ann', 'A', NULL, true, 1000, 1000), \
             ({bob}, 'bob', 'bob@example.com', 'Bob', '', true, true, 1001, 1001)"
        ),
        format!(
            "INSERT INTO organization_memberships (id, organization_id, user_id, level, \
             joined_at, updated_at) VALUES ({anns_place}, {acme}, 1, 15, 1000, 1000), \
             ({bobs_place}, {acme}, 2, 1, 1001, 1001)"
        ),
        format!(
            "INSERT INTO projects (uuid, organization_id, name, api_token, api_token_imported, \
             anonymize_ips, timezone, created_at, updated_at) VALUES \
             ({project}, {acme}, 'Default project', '{PROJECT_VALUE}', false, true, \
             'Europe/Berlin', 1000, 1000), \
             ({keyless}, {acme}, 'Keyless', NULL, false, false, 'UTC', 1001, 1001)"
        ),
        format!(
            "INSERT INTO personal_api_keys (id, user_id, label, key_hash, mask_value, scopes, \
             scoped_organizations, expires_at, last_used_at, last_rolled_at, revoked_at, \
             created_at) VALUES \
             ({anns_key}, 1, 'First', \
             'a74bd411a0b52bb89b6dbc92a4fd290d24fffed5e19d27c2c418e69a35d2548b', 'phx_...7ltJ', \
             '[\"*\"]', NULL, NULL, NULL, NULL, NULL, 1000), \
             ({bobs_key}, 2, 'Narrow', \
             'f61f89dd877b0ebb72770dc922b8eeb5192f350ef2073ef4f3815b74ebb8551b', 'phx_...E5Nr', \
             '[\"organization:read\"]', '[\"{ACME}\"]', 1790000000000001, 1002, NULL, NULL, 1001), \
             ({revoked}, 1, 'Revoked', \
             'b6fa684e40ebfedcfe1efcd24ed32d6f8438d54e971436355aa1608898f1c6a2', 'phx_...baVR', \
             '[\"*\"]', NULL, NULL, NULL, NULL, 1003, 1002)"
        ),
        "UPDATE catalog_versions SET version = 7 WHERE name = 'keys'".to_owned(),
    ]
}

/// Opens a database that commit 4bbccd5 left.
async fn upgraded(database: &TestDatabase) -> Catalog {
    let old = database.open_4bbccd5().await.unwrap();
    old.close().await.unwrap();
    for row in rows(database) {
        database.execute(&row).await.unwrap();
    }
    let clock = Arc::new(TestClock::at(Micros(NOW)));
    let opened = Catalog::open_with_clock(database.url(), clock).await;
    opened.unwrap()
}

async fn caller(catalog: &Catalog, value: &str) -> Caller {
    let caller = PersonalKeys::new(catalog)
        .authenticate(value)
        .await
        .unwrap();
    caller.unwrap()
}

async fn everything_of_commit_4bbccd5_is_kept(database: TestDatabase) {
    let catalog = upgraded(&database).await;
    let organizations = Organizations::new(&catalog);
    let keys_of_users = PersonalKeys::new(&catalog);
    let acme = Organization {
        id: ACME,
        name: "Acme".to_owned(),
        slug: "acme".to_owned(),
        created_at: UtcTime(1000),
        updated_at: UtcTime(2000),
        is_member_join_email_enabled: false,
        enforce_2fa: Some(true),
        members_can_write_pipelines: true,
        plugins_access_level: 9,
        customer_id: Some("c1".to_owned()),
        disabled_features: FeatureKeys(vec!["saml".to_owned()]),
        member_count: 2,
    };
    assert_eq!(organizations.list_all().await.unwrap(), [acme]);
    let ann = caller(&catalog, ANNS_VALUE).await;
    assert_eq!((ann.user.uuid, &*ann.user.email), (ANN, "ann@example.com"));
    let bob = caller(&catalog, BOBS_VALUE).await;
    assert_eq!(bob.scopes, Scopes::parse(["organization:read"]).unwrap());
    assert!(organizations.access(&bob, ACME).await.unwrap().is_some());
    let revoked = keys_of_users.authenticate(REVOKED_VALUE).await.unwrap();
    assert!(revoked.is_none());
    let keys = keys_of_users.list_own(&ann, FIRST).await.unwrap();
    let keys: Vec<_> = keys.rows.iter().map(|key| (key.id, &*key.label)).collect();
    assert_eq!(keys, [(ANNS_KEY, "First")]);
    let members = Members::new(&catalog)
        .list(ACME, None, FIRST)
        .await
        .unwrap();
    let members = members.rows.iter().map(|member| {
        let membership = &member.membership;
        (membership.id, membership.level, &*member.user.first_name)
    });
    let expected = [
        (ANNS_MEMBERSHIP, Level::Owner, "Ann"),
        (BOBS_MEMBERSHIP, Level::Member, "Bob"),
    ];
    assert_eq!(members.collect::<Vec<_>>(), expected);
    let projects = Projects::new(&catalog).list_all(Some(ACME)).await.unwrap();
    let projects: Vec<_> = projects
        .iter()
        .map(|project| (project.id, project.uuid, &*project.timezone))
        .collect();
    assert_eq!(
        projects,
        [(1, PROJECT, "Europe/Berlin"), (2, KEYLESS, "UTC")]
    );
    let key = ProjectKeys::new(&catalog)
        .find(PROJECT_VALUE)
        .await
        .unwrap()
        .unwrap();
    assert_eq!((key.project_id, key.anonymize_ips), (ProjectId(1), true));
    assert_eq!(catalog.keys_version().await.unwrap(), 7);
}

async fn organizations_of_commit_4bbccd5_can_use_newer_resources(database: TestDatabase) {
    let catalog = upgraded(&database).await;
    let ann = caller(&catalog, ANNS_VALUE).await.actor();
    let invite = NewInvite::to("carl@example.com");
    let sent = Invites::new(&catalog)
        .create(&ann, ACME, invite)
        .await
        .unwrap();
    let token = sent.token.expose();
    let joined = Invites::new(&catalog)
        .accept_as_new(token, "Carl", "")
        .await;
    assert_eq!(joined.unwrap().organization.id, ACME);
    let domain = NewDomain::named("acme.example");
    Domains::new(&catalog)
        .create(&ann, ACME, domain)
        .await
        .unwrap();
    let role = Roles::new(&catalog).create(&ann, ACME, NewRole::named("Engineers"));
    let role = role.await.unwrap().role.id;
    let held = Roles::new(&catalog)
        .add_member(&ann, ACME, role, BOB)
        .await
        .unwrap();
    assert_eq!(held.record.membership_id, BOBS_MEMBERSHIP);
    let promoted = Members::new(&catalog).set_level(&ann, ACME, BOB, Level::Owner);
    assert_eq!(promoted.await.unwrap().membership.level, Level::Owner);
    let reset = ProjectKeyChanges::new(&catalog)
        .reset(&ann, ACME, ProjectId(1))
        .await;
    assert_ne!(reset.unwrap().api_token.as_deref(), Some(PROJECT_VALUE));
    assert_eq!(catalog.keys_version().await.unwrap(), 8);
    Members::new(&catalog)
        .remove(&ann, ACME, ANN)
        .await
        .unwrap();
    let operator = Actor::command_line();
    Organizations::new(&catalog)
        .delete(&operator, ACME)
        .await
        .unwrap();
    assert!(
        Organizations::new(&catalog)
            .list_all()
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        Users::new(&catalog)
            .by_email("ann@example.com")
            .await
            .unwrap()
            .is_some()
    );
}

async fn older_proxy_records_are_kept_and_block_only_if_proven(database: TestDatabase) {
    let old = database.open_before("m0039_proxy_claims").await.unwrap();
    old.close().await.unwrap();
    let id = |id: Uuid| database.uuid_literal(id);
    let [acme, users, ..] = rows(&database);
    for row in [acme, users] {
        database.execute(&row).await.unwrap();
    }
    let statuses = [
        "waiting",
        "issuing",
        "valid",
        "warning",
        "erroring",
        "timed_out",
    ];
    for (number, status) in (0_u128..).zip(statuses) {
        let row = format!(
            "INSERT INTO proxy_records (id, organization_id, domain, target_cname, status, message, \
             created_by, created_at, updated_at, check_at) VALUES ({}, {}, '{status}.example', 't', \
             '{status}', 'm', 1, {number}, 2, 3)",
            id(Uuid::from_u128(number + 1)),
            id(ACME),
        );
        database.execute(&row).await.unwrap();
    }
    let catalog = Catalog::open(database.url()).await.unwrap();
    let proxy_records = ProxyRecords::new(&catalog);
    let organizations = Organizations::new(&catalog);
    let kept = proxy_records.list(ACME, FIRST).await.unwrap().rows;
    let kept = kept.iter().map(|seen| {
        let record = &seen.record;
        let by = seen.created_by.as_ref().map(|user| user.uuid);
        assert_eq!(
            (record.updated_at, record.check_at, by),
            (UtcTime(2), UtcTime(3), Some(ANN))
        );
        assert_eq!(
            (&*record.target_cname, record.message.as_deref()),
            ("t", Some("m"))
        );
        record.domain.strip_suffix(".example").unwrap()
    });
    assert_eq!(kept.collect::<Vec<_>>(), statuses);
    let operator = Actor::command_line();
    let other = organizations.create(&operator, "Other", None).await;
    let other = other.unwrap().id;
    for status in statuses {
        for (organization_id, is_free) in [
            (ACME, false),
            (other, !["valid", "warning"].contains(&status)),
        ] {
            let domain = format!("{status}.example");
            let made = proxy_records.create(&operator, organization_id, &domain, "base");
            assert_eq!(made.await.is_ok(), is_free, "{status} {organization_id}");
        }
    }
    // Resources of an organization are deleted with it, as before.
    organizations.delete(&operator, ACME).await.unwrap();
    let left = proxy_records.list(ACME, FIRST).await.unwrap();
    assert_eq!(left.count, 0);
}

async fn older_nodes_accept_folders_without_counted_starts(database: TestDatabase) {
    let old = database.open_before("m0041_node_starts").await.unwrap();
    old.close().await.unwrap();
    let row = "INSERT INTO ingest_nodes (name, host, state, watermark, published_at, started_at) \
        VALUES ('a', 'h', 'running', 5, 6, 7)";
    database.execute(row).await.unwrap();
    let catalog = Catalog::open(database.url()).await.unwrap();
    let node = Nodes::new(&catalog).get("a").await.unwrap();
    let folder = NodeStarts::default();
    let next = folder.next(node.as_ref(), "first".to_owned(), UtcTime(6));
    let next = next.unwrap();
    assert_eq!((next.is_behind, next.starts.own.count), (false, 1));
    let min_created_at = Nodes::new(&catalog).register("a", "h", &next.starts).await;
    assert_eq!(min_created_at.unwrap(), Some(UtcTime(5)));
    let published = Nodes::new(&catalog).publish("a", &next.starts, None).await;
    assert_eq!(published.unwrap(), Published::Done);
}
