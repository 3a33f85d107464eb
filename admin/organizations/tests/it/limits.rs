//! Limits of what an organization or a user may have. Exports, plugins, projects, keys, proxy
//! records and backfills have tests of their own.

use millrace_catalog::limits::{
    DOMAINS_MAX, HISTORICAL_MIGRATIONS_MAX, INVITES_MAX, MEMBERS_MAX, OWNED_ORGANIZATIONS_MAX,
    ROLE_MEMBERSHIPS_MAX, ROLES_MAX,
};
use millrace_catalog::testing::lists::add_members;
use millrace_catalog::testing::{TestDatabase, numbers, random_uuid};
use millrace_catalog::{Actor, ChangeError};
use millrace_organizations::testing::test_env::TestEnv;
use millrace_organizations::{
    Domains, HistoricalMigrations, Invites, Members, NewDomain, NewHistoricalMigration, NewInvite,
    NewRole, Organizations, Roles,
};

on_both!(
    roles_domains_and_migrations_of_an_organization_are_limited,
    role_memberships_of_an_organization_are_limited,
    invites_are_limited_and_one_may_be_replaced_at_the_limit,
    nobody_joins_an_organization_at_its_member_limit,
    organizations_that_a_user_owns_are_limited,
    others_write_while_an_organization_at_its_limits_is_deleted,
);

const HERE: &str = "(SELECT id FROM organizations WHERE name = 'Acme')";
const INVITE_COLUMNS: &str = "id, organization_id, target_email, email_key, first_name, level, \
     private_project_access, emailing_attempt_made, token_hash, expires_at, created_at, updated_at";
const INVITE_VALUES: &str = "UUID, HERE, 'a' || i, 'a' || i, '', 1, '[]', false, 'h' || i, i, i, i";

/// Inserts rows whose creation by the catalog would take too long.
async fn fill(database: &TestDatabase, rows: u64, table: &str, columns: &str, values: &str) {
    let (numbers, uuid) = (numbers(u32::try_from(rows).unwrap()), random_uuid(database));
    let values = values.replace("UUID", uuid).replace("HERE", HERE);
    let insert = format!("INSERT INTO {table} ({columns}) {numbers} SELECT {values} FROM n");
    database.execute(&insert).await.unwrap();
}

fn must_be_refused<T: std::fmt::Debug>(most: u64, made: Result<T, ChangeError>) {
    let error = made.unwrap_err();
    assert!(matches!(error, ChangeError::Forbidden(_)), "{error:?}");
    assert!(error.to_string().contains(&most.to_string()), "{error}");
}

async fn roles_domains_and_migrations_of_an_organization_are_limited(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, actor, id) = (&env.catalog, &env.owner, env.organization);
    let columns = "id, organization_id, name, name_key, feature_flags_access_level, created_at";
    let values = "UUID, HERE, 'r' || i, 'r' || i, 37, i";
    fill(&database, ROLES_MAX - 1, "roles", columns, values).await;
    let role = |name| Roles::new(catalog).create(actor, id, NewRole::named(name));
    role("Last").await.unwrap();
    must_be_refused(ROLES_MAX, role("One more").await);

    let columns = "id, organization_id, domain, verification_challenge, jit_provisioning_enabled, \
                   sso_enforcement, created_at, updated_at";
    let values = "UUID, HERE, 'd' || i, 'x', false, '', i, i";
    let table = "organization_domains";
    fill(&database, DOMAINS_MAX - 1, table, columns, values).await;
    let domain = |name| Domains::new(catalog).create(actor, id, NewDomain::named(name));
    domain("last.example").await.unwrap();
    must_be_refused(DOMAINS_MAX, domain("more.example").await);

    let columns = "id, organization_id, team_id, source, method, total_events, events_per_minute, \
                   state, events_imported, created_at";
    let values = "UUID, HERE, (SELECT min(id) FROM projects), 's', 'm', 1, 1, 'requested', 0, i";
    let table = "historical_migrations";
    fill(
        &database,
        HISTORICAL_MIGRATIONS_MAX - 1,
        table,
        columns,
        values,
    )
    .await;
    let migration = || {
        let new = NewHistoricalMigration {
            project_id: None,
            source: "Other".to_owned(),
            method: "export".to_owned(),
            total_events: 1,
            events_per_minute: 1,
        };
        HistoricalMigrations::new(catalog).request(actor, id, new)
    };
    migration().await.unwrap();
    must_be_refused(HISTORICAL_MIGRATIONS_MAX, migration().await);
}

async fn role_memberships_of_an_organization_are_limited(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, actor, id) = (&env.catalog, &env.owner, env.organization);
    add_members(&database, 1_000).await;
    let columns = "id, organization_id, name, name_key, feature_flags_access_level, created_at";
    let values = "UUID, HERE, 'r' || i, 'r' || i, 37, i";
    fill(&database, 51, "roles", columns, values).await;
    let role = Roles::new(catalog)
        .create(actor, id, NewRole::named("Last"))
        .await;
    let role = role.unwrap().role.id;
    let uuid = random_uuid(&database);
    let given = format!(
        "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
         SELECT {uuid}, roles.id, members.id, 1, 1 FROM roles, organization_memberships AS members \
         WHERE roles.name <> 'Last' AND members.organization_id = {HERE} LIMIT {}",
        ROLE_MEMBERSHIPS_MAX - 1
    );
    database.execute(&given).await.unwrap();
    let page = millrace_catalog::PageRequest {
        limit: 2,
        offset: 0,
    };
    let members = Members::new(catalog)
        .list(id, None, page)
        .await
        .unwrap()
        .rows;
    let [one, other] = members.as_slice() else {
        panic!("{members:?}");
    };
    let give = |uuid| Roles::new(catalog).add_member(actor, id, role, uuid);
    give(one.user.uuid).await.unwrap();
    must_be_refused(ROLE_MEMBERSHIPS_MAX, give(other.user.uuid).await);
}

async fn invites_are_limited_and_one_may_be_replaced_at_the_limit(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, actor, id) = (&env.catalog, &env.owner, env.organization);
    let table = "organization_invites";
    fill(
        &database,
        INVITES_MAX - 1,
        table,
        INVITE_COLUMNS,
        INVITE_VALUES,
    )
    .await;
    let invite = |email| Invites::new(catalog).create(actor, id, NewInvite::to(email));
    invite("last@example.com").await.unwrap();
    must_be_refused(INVITES_MAX, invite("more@example.com").await);
    invite("last@example.com").await.unwrap();
}

async fn nobody_joins_an_organization_at_its_member_limit(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, actor, id) = (&env.catalog, &env.owner, env.organization);
    let invite = async |email: &str| {
        let sent = Invites::new(catalog).create(actor, id, NewInvite::to(email));
        sent.await.unwrap().token.expose().to_owned()
    };
    let tokens = [
        invite("last@example.com").await,
        invite("more@example.com").await,
        invite("bob@example.com").await,
    ];
    let bob = env.user("bob").await;
    let bob = env.caller(&bob).await;
    // Ann is a member already.
    add_members(&database, u32::try_from(MEMBERS_MAX - 2).unwrap()).await;
    let join = |token: &str| {
        let token = token.to_owned();
        async move { Invites::new(catalog).accept_as_new(&token, "A", "B").await }
    };
    join(&tokens[0]).await.unwrap();
    must_be_refused(MEMBERS_MAX, join(&tokens[1]).await);
    let joined = Invites::new(catalog).accept_as(&tokens[2], &bob).await;
    must_be_refused(MEMBERS_MAX, joined);
    // A member who leaves frees a place, and the invite still works.
    let last = "DELETE FROM organization_memberships WHERE user_id = (SELECT id FROM users WHERE \
                email = 'crowd1@example.com')";
    database.execute(last).await.unwrap();
    let counted = "UPDATE organizations SET member_count = member_count - 1 WHERE name = 'Acme'";
    database.execute(counted).await.unwrap();
    join(&tokens[1]).await.unwrap();
}

async fn organizations_that_a_user_owns_are_limited(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, actor, ann) = (&env.catalog, &env.owner, env.ann.id);
    let columns = "id, name, slug, created_at, updated_at, is_member_join_email_enabled, \
                   members_can_write_pipelines, plugins_access_level, disabled_features";
    let values = "UUID, 'o' || i, 'o' || i, i, i, true, true, 9, '[]'";
    // Acme counts.
    let rows = OWNED_ORGANIZATIONS_MAX - 2;
    fill(&database, rows, "organizations", columns, values).await;
    let uuid = random_uuid(&database);
    let owned = format!(
        "INSERT INTO organization_memberships (id, organization_id, user_id, level, joined_at, \
         updated_at) SELECT {uuid}, id, {ann}, 15, 1, 1 FROM organizations WHERE name <> 'Acme'"
    );
    database.execute(&owned).await.unwrap();
    let organization = |owner| Organizations::new(catalog).create(actor, "One", owner);
    organization(Some(ann)).await.unwrap();
    must_be_refused(OWNED_ORGANIZATIONS_MAX, organization(Some(ann)).await);
    organization(None).await.unwrap();
}

async fn others_write_while_an_organization_at_its_limits_is_deleted(database: TestDatabase) {
    let env = TestEnv::new(&database).await;
    let (catalog, system) = (&env.catalog, Actor::system());
    // Ann is a member already.
    add_members(&database, u32::try_from(MEMBERS_MAX - 1).unwrap()).await;
    let columns = "id, organization_id, name, name_key, feature_flags_access_level, created_at";
    let values = "UUID, HERE, 'r' || i, 'r' || i, 37, i";
    let roles = ROLE_MEMBERSHIPS_MAX / MEMBERS_MAX;
    fill(&database, roles, "roles", columns, values).await;
    let uuid = random_uuid(&database);
    let given = format!(
        "INSERT INTO role_memberships (id, role_id, membership_id, joined_at, updated_at) \
         SELECT {uuid}, roles.id, members.id, 1, 1 FROM roles, organization_memberships AS members"
    );
    database.execute(&given).await.unwrap();
    let table = "organization_invites";
    fill(&database, INVITES_MAX, table, INVITE_COLUMNS, INVITE_VALUES).await;
    let tables = ["organization_memberships", "role_memberships", table];
    let rows = async || {
        let mut rows = Vec::new();
        for table in tables {
            let count = format!("SELECT CAST(COUNT(*) AS TEXT) FROM {table}");
            let count = database.first_column(&count).await.unwrap();
            rows.push(count[0].parse::<u64>().unwrap());
        }
        rows
    };
    assert_eq!(
        rows().await,
        [MEMBERS_MAX, ROLE_MEMBERSHIPS_MAX, INVITES_MAX]
    );
    let other = Organizations::new(catalog)
        .create(&system, "Other", None)
        .await;
    let other = other.unwrap().id;
    let (deleter, owner, id) = (env.catalog.clone(), env.owner.clone(), env.organization);
    let deleted =
        tokio::spawn(async move { Organizations::new(&deleter).delete(&owner, id).await });
    for number in 0..ROLES_MAX {
        let name = format!("Role {number}");
        let made = Roles::new(catalog).create(&system, other, NewRole::named(&name));
        made.await.unwrap();
        if deleted.is_finished() {
            break;
        }
    }
    deleted.await.unwrap().unwrap();
    assert_eq!(rows().await, [0; 3]);
}
