//! Features that are taken away while a change waits: the catalog checks those of the locked
//! organization, not those that the caller saw before.

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::{Actor, ChangeError, FEATURES, Patch, ProjectAccess, ProjectAccessLevel};
use millrace_organizations::testing::fixture::Fixture;
use millrace_organizations::testing::set_features;
use millrace_organizations::{
    DomainChange, Domains, HistoricalMigrations, Invites, NewDomain, NewHistoricalMigration,
    NewInvite, NewPlugin, NewRole, PluginFamily, PluginFields, PluginWriter, Plugins, ProxyRecords,
    RoleChange, Roles,
};

on_both!(
    creating_and_changing_need_the_feature_of_the_locked_organization,
    ending_needs_no_feature,
);

/// Resources that were created before all features were taken away.
struct WithoutFeatures {
    fixture: Fixture,
    role: uuid::Uuid,
    domain: uuid::Uuid,
    proxy: uuid::Uuid,
    plugin: i64,
    member: millrace_catalog::User,
}

fn new_migration() -> NewHistoricalMigration {
    NewHistoricalMigration {
        project_id: None,
        source: "Amplitude".to_owned(),
        method: "batch".to_owned(),
        total_events: 30,
        events_per_minute: 10,
    }
}

fn plugin() -> NewPlugin {
    let fields = PluginFields {
        name: Patch::Value(Some("Plugin".to_owned())),
        ..PluginFields::default()
    };
    NewPlugin {
        fields,
        ..NewPlugin::default()
    }
}

impl WithoutFeatures {
    async fn open(database: &TestDatabase) -> Self {
        let fixture = Fixture::open(database).await;
        let member = fixture.member().await;
        let (catalog, actor, id) = (&fixture.catalog, &fixture.actor, fixture.organization_id);
        let role = Roles::new(catalog)
            .create(actor, id, NewRole::named("Role"))
            .await;
        let domain = Domains::new(catalog).create(actor, id, NewDomain::named("a.example"));
        let domain = domain.await.unwrap().id;
        let proxy = ProxyRecords::new(catalog).create(actor, id, "e.a.example", "proxy.example");
        let proxy = proxy.await.unwrap().record.id;
        let writer = PluginWriter {
            actor,
            organization_id: id,
            family: PluginFamily::Plugins,
            is_operator: false,
        };
        let plugin = Plugins::new(catalog).create(writer, plugin()).await;
        let (role, plugin) = (role.unwrap().role.id, plugin.unwrap().plugin.id);
        let all = FEATURES.map(|feature| feature.key.to_owned());
        let operator = Actor::command_line();
        let off = set_features(catalog, &operator, id, &[], &all);
        off.await.unwrap();
        Self {
            fixture,
            role,
            domain,
            proxy,
            plugin,
            member,
        }
    }

    fn writer(&self, family: PluginFamily) -> PluginWriter<'_> {
        PluginWriter {
            actor: &self.fixture.actor,
            organization_id: self.fixture.organization_id,
            family,
            is_operator: false,
        }
    }
}

fn missing<T>(outcome: Result<T, ChangeError>) -> &'static str {
    match outcome {
        Err(ChangeError::FeatureMissing(feature)) => feature,
        Err(other) => panic!("{other}"),
        Ok(_) => "none",
    }
}

async fn creating_and_changing_need_the_feature_of_the_locked_organization(database: TestDatabase) {
    let made = WithoutFeatures::open(&database).await;
    let (catalog, actor) = (&made.fixture.catalog, &made.fixture.actor);
    let id = made.fixture.organization_id;
    let new = NewRole::named("Other");
    assert_eq!(
        missing(Roles::new(catalog).create(actor, id, new).await),
        "role_based_access"
    );
    let renamed = RoleChange {
        name: Patch::Value("Other".to_owned()),
        ..RoleChange::default()
    };
    let changed = Roles::new(catalog)
        .update(actor, id, made.role, renamed)
        .await;
    assert_eq!(missing(changed), "role_based_access");
    let given = Roles::new(catalog).add_member(actor, id, made.role, made.member.uuid);
    assert_eq!(missing(given.await), "role_based_access");

    let claimed = Domains::new(catalog).create(actor, id, NewDomain::named("b.example"));
    assert_eq!(missing(claimed.await), "automatic_provisioning");
    let changed = Domains::new(catalog).update(actor, id, made.domain, DomainChange::default());
    assert_eq!(missing(changed.await), "automatic_provisioning");
    let proved = Domains::new(catalog).verify(actor, id, made.domain, "a.example");
    assert_eq!(missing(proved.await), "automatic_provisioning");

    let proxy = ProxyRecords::new(catalog).create(actor, id, "f.a.example", "proxy.example");
    assert_eq!(missing(proxy.await), "managed_reverse_proxy");
    let asked = HistoricalMigrations::new(catalog).request(actor, id, new_migration());
    assert_eq!(missing(asked.await), "historical_migrations");
    let invite = NewInvite {
        private_project_access: vec![ProjectAccess {
            id: made.fixture.project_id.0,
            level: ProjectAccessLevel::Number(1),
        }],
        ..NewInvite::to("new@example.org")
    };
    let invited = Invites::new(catalog)
        .create(actor, id, invite.clone())
        .await;
    assert_eq!(missing(invited), "advanced_permissions");
    let invited = Invites::new(catalog)
        .create_all(actor, id, vec![invite])
        .await;
    assert_eq!(missing(invited), "advanced_permissions");

    for family in [PluginFamily::Destinations, PluginFamily::Transformations] {
        let new = Plugins::new(catalog)
            .create(made.writer(family), plugin())
            .await;
        assert_eq!(missing(new), "data_pipelines");
        let fields = PluginFields::default();
        let changed = Plugins::new(catalog).update(made.writer(family), made.plugin, fields);
        assert_eq!(missing(changed.await), "data_pipelines");
    }
    let other = Plugins::new(catalog).create(made.writer(PluginFamily::Plugins), plugin());
    assert_eq!(missing(other.await), "none");
    saml_needs_a_feature_of_its_own(&made).await;
}

/// Checks changes of a domain for which the features of domains do not do.
async fn saml_needs_a_feature_of_its_own(made: &WithoutFeatures) {
    let (catalog, actor) = (&made.fixture.catalog, &made.fixture.actor);
    let id = made.fixture.organization_id;
    let on = ["automatic_provisioning", "sso_enforcement"].map(str::to_owned);
    let operator = Actor::command_line();
    let allowed = set_features(catalog, &operator, id, &on, &[]);
    allowed.await.unwrap();
    for change in [
        DomainChange {
            saml_entity_id: Patch::Value(Some("https://idp.example".to_owned())),
            ..DomainChange::default()
        },
        DomainChange {
            sso_enforcement: Patch::Value("saml".to_owned()),
            ..DomainChange::default()
        },
    ] {
        let changed = Domains::new(catalog).update(actor, id, made.domain, change);
        assert_eq!(missing(changed.await), "saml");
    }
}

async fn ending_needs_no_feature(database: TestDatabase) {
    let made = WithoutFeatures::open(&database).await;
    let (catalog, actor) = (&made.fixture.catalog, &made.fixture.actor);
    let id = made.fixture.organization_id;
    Roles::new(catalog)
        .delete(actor, id, made.role)
        .await
        .unwrap();
    Domains::new(catalog)
        .delete(actor, id, made.domain)
        .await
        .unwrap();
    let deleted = ProxyRecords::new(catalog).delete(actor, id, made.proxy);
    deleted.await.unwrap();
    let deleted = Plugins::new(catalog).delete(made.writer(PluginFamily::Plugins), made.plugin);
    deleted.await.unwrap();
    let invited = Invites::new(catalog).create(actor, id, NewInvite::to("new@example.org"));
    invited.await.unwrap();
}
