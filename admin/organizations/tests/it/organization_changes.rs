//! Organizations: settings, features, deletion.

use millrace_catalog::features::SAML;
use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Activity, Actor, FEATURES, Patch, ProjectKeys};
use millrace_organizations::testing::set_features;
use millrace_organizations::testing::test_env::{FIRST, TestEnv, actor, field, violation};
use millrace_organizations::{
    ActivityFilter, ActivityLog, NewOrganization, OrganizationChange, Organizations, Projects,
};

on_both!(
    settings_change_one_by_one,
    only_administrators_change_settings,
    an_operator_takes_features_away_and_gives_them_back,
    a_deleted_organization_leaves_only_one_entry,
    only_owners_delete,
    a_list_of_organizations_takes_three_statements,
    access_takes_one_statement_and_has_the_level,
);

async fn settings_change_one_by_one(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, ann, id) = (&env.catalog, env.owner.clone(), env.organization);
    let new = NewOrganization {
        enforce_2fa: Some(true),
        is_member_join_email_enabled: Patch::Value(false),
        ..NewOrganization::from("Second")
    };
    let second = Organizations::new(catalog)
        .create(&ann, new, None)
        .await
        .unwrap();
    assert_eq!(second.enforce_2fa, Some(true));
    assert!(!second.is_member_join_email_enabled);
    let change = OrganizationChange::default;
    let table = [
        OrganizationChange {
            name: Patch::Value(" New name ".to_owned()),
            ..change()
        },
        OrganizationChange {
            enforce_2fa: Patch::Value(Some(true)),
            ..change()
        },
        OrganizationChange {
            enforce_2fa: Patch::Value(None),
            is_member_join_email_enabled: Patch::Value(false),
            ..change()
        },
        OrganizationChange {
            members_can_write_pipelines: Patch::Value(false),
            ..change()
        },
    ];
    let mut last = None;
    for change in table {
        let changed = Organizations::new(catalog).update(&ann, id, change).await;
        last = Some(changed.unwrap());
        assert_eq!(env.newest_entry().await.activity, Activity::Updated);
    }
    let last = last.unwrap();
    assert_eq!((&*last.name, &*last.slug), ("New name", "acme"));
    assert_eq!(last.enforce_2fa, None);
    assert!(!last.is_member_join_email_enabled);
    assert!(!last.members_can_write_pipelines);
    let entry = env.newest_entry().await;
    let same = Organizations::new(catalog).update(&ann, id, change()).await;
    assert_eq!(same.unwrap(), last);
    assert_eq!(env.newest_entry().await, entry, "nothing changed");
    for (name, code) in [("", "blank"), (&*"x".repeat(65), "max_length")] {
        let change = OrganizationChange {
            name: Patch::Value(name.to_owned()),
            ..change()
        };
        let refused = Organizations::new(catalog).update(&ann, id, change).await;
        assert_eq!(violation(refused), field(code, "name"));
    }
}

async fn only_administrators_change_settings(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let bob = actor(&env.user("bob").await);
    let change = OrganizationChange {
        name: Patch::Value("Bob's".to_owned()),
        ..OrganizationChange::default()
    };
    let refused = Organizations::new(&env.catalog).update(&bob, env.organization, change.clone());
    assert_eq!(violation(refused.await).0, "permission_denied");
    let nowhere = uuid::Uuid::now_v7();
    let refused = Organizations::new(&env.catalog).update(&env.owner, nowhere, change);
    assert_eq!(violation(refused.await).0, "not_found");
}

async fn an_operator_takes_features_away_and_gives_them_back(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let operator = Actor::command_line();
    let keys = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let table: [(&[&str], &[&str], &[&str]); 4] = [
        (&[], &["saml", "audit_logs"], &["saml", "audit_logs"]),
        (&["saml"], &[], &["audit_logs"]),
        (&["saml"], &["saml"], &["saml", "audit_logs"]),
        (&["saml", "audit_logs"], &[], &[]),
    ];
    for (on, off, left) in table {
        let (on, off) = (keys(on), keys(off));
        let id = env.organization;
        let set = set_features(&env.catalog, &operator, id, &on, &off);
        let set = set.await.unwrap();
        assert_eq!(set.disabled_features.0, left);
        assert_eq!(set.features().count(), FEATURES.len() - left.len());
        assert_eq!(set.has_feature(SAML), !left.contains(&"saml"));
    }
    let id = env.organization;
    let unknown = keys(&["flying"]);
    let refused = set_features(&env.catalog, &operator, id, &[], &unknown);
    assert_eq!(
        refused.await.unwrap_err().to_string(),
        "there is no feature \"flying\""
    );
    let set = Organizations::new(&env.catalog).set_plugins_access_level(&operator, id, 3);
    assert_eq!(set.await.unwrap().plugins_access_level, 3);
    let changes = env.newest_entry().await.detail.changes;
    assert_eq!(changes[0].field, "plugins_access_level");
    let refused = Organizations::new(&env.catalog).set_plugins_access_level(&operator, id, 4);
    let blamed = field("invalid_choice", "plugins_access_level");
    assert_eq!(violation(refused.await), blamed);
}

async fn a_deleted_organization_leaves_only_one_entry(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, id) = (&env.catalog, env.organization);
    let project = Projects::new(catalog)
        .list_all(Some(id))
        .await
        .unwrap()
        .remove(0);
    let key = project.api_token.unwrap();
    let caller = env.caller(&env.ann).await;
    let before = catalog.keys_version().await.unwrap();
    Organizations::new(catalog)
        .delete(&env.owner, id)
        .await
        .unwrap();
    assert!(
        Organizations::new(catalog)
            .list_all()
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        Projects::new(catalog)
            .list_all(None)
            .await
            .unwrap()
            .is_empty()
    );
    assert!(
        ProjectKeys::new(catalog)
            .find(&key)
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        Organizations::new(catalog)
            .access(&caller, id)
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(
        Organizations::new(catalog)
            .list_of(&caller, FIRST)
            .await
            .unwrap()
            .count,
        0
    );
    assert!(catalog.keys_version().await.unwrap() > before);
    let filter = ActivityFilter {
        organization_id: id,
        scopes: Vec::new(),
        item_id: None,
    };
    assert_eq!(
        ActivityLog::new(catalog)
            .list(&filter, FIRST)
            .await
            .unwrap()
            .count,
        0
    );
    let again = Organizations::new(catalog).delete(&env.owner, id).await;
    assert_eq!(violation(again).0, "not_found");
}

async fn only_owners_delete(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let bob = actor(&env.user("bob").await);
    let refused = Organizations::new(&env.catalog).delete(&bob, env.organization);
    assert_eq!(violation(refused.await).0, "permission_denied");
    assert_eq!(
        Organizations::new(&env.catalog)
            .list_all()
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn a_list_of_organizations_takes_three_statements(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let caller = env.caller(&env.ann).await;
    for number in 0..20 {
        let name = format!("Organization {number}");
        let made = Organizations::new(&env.catalog).create(&env.owner, &*name, Some(env.ann.id));
        made.await.unwrap();
    }
    let (catalog, sent) = env.catalog.counted();
    let page = Organizations::new(&catalog)
        .list_of(&caller, FIRST)
        .await
        .unwrap();
    assert_eq!((page.count, page.rows.len()), (21, 21));
    for row in &page.rows {
        assert_eq!((row.projects.len(), row.organization.member_count), (1, 1));
    }
    let sent_for_list = sent.take();
    assert!(sent_for_list.len() <= 3, "{sent_for_list:#?}");
    let one = Organizations::new(&catalog)
        .get_of(&caller, env.organization)
        .await;
    assert_eq!(one.unwrap().as_ref(), page.rows.first());
    assert_eq!(sent.take().len(), 2);
}

async fn access_takes_one_statement_and_has_the_level(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let mut caller = env.caller(&env.ann).await;
    let bob = env.user("bob").await;
    let stranger = env.caller(&bob).await;
    let (catalog, sent) = env.catalog.counted();
    let id = env.organization;
    let access = Organizations::new(&catalog)
        .access(&caller, id)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(sent.take().len(), 1);
    assert_eq!(access.organization.id, id);
    assert_eq!(access.level, Some(millrace_catalog::Level::Owner));
    assert!(
        Organizations::new(&catalog)
            .access(&stranger, id)
            .await
            .unwrap()
            .is_none()
    );
    caller.scoped_organizations = Some(millrace_catalog::OrganizationIds(vec![]));
    assert!(
        Organizations::new(&catalog)
            .access(&caller, id)
            .await
            .unwrap()
            .is_none()
    );
}
