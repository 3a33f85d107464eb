//! Cost of long lists: their number of statements, and their use of indexes.

use millrace_catalog::testing::lists::{Sizes, add_lists};
use millrace_catalog::testing::{DatabaseKind, StatementCount, TestDatabase};
use millrace_catalog::{ActivityScope, Catalog, PageRequest};
use millrace_exports::{
    Backfills, BatchExports, ExportLogFilter, ExportLogs, ExportPlace, ExportRuns, RunFilter,
};
use millrace_organizations::testing::test_env::TestEnv;
use millrace_organizations::{
    ActivityFilter, ActivityLog, Caller, Domains, HistoricalMigrations, Invites, Members,
    Organizations, PersonalKeys, PluginFamily, Plugins, Projects, ProxyRecords, RoleFilter, Roles,
};
use uuid::Uuid;

on_both!(
    long_lists_take_three_statements,
    a_page_is_the_same_near_and_far_from_the_start,
);

const PAGE: PageRequest = PageRequest {
    limit: 500,
    offset: 500,
};
const STATEMENTS_MAX: usize = 3;
/// Least rows of each list.
const ROWS: u32 = 1000;
/// Lists that SQLite may sort, as other limits keep them short: memberships of one user, projects
/// of an organization (1500), keys of one user (100), plugins of an organization, the newest ten
/// runs of each export of a page, the first members of its roles.
const SORTED: [&str; 7] = [
    "exports",
    "roles",
    "organizations",
    "keys",
    "plugins",
    "unused plugins",
    "exporting plugins",
];

/// Organization with long lists of every resource.
struct LongLists {
    catalog: Catalog,
    sent: StatementCount,
    organization: Uuid,
    caller: Caller,
    role: Uuid,
}

impl LongLists {
    async fn new(database: &TestDatabase) -> Self {
        let env = TestEnv::new(database).await;
        let new = millrace_organizations::NewRole::named("Everybody");
        let role = Roles::new(&env.catalog).create(&env.owner, env.organization, new);
        let role = role.await.unwrap().role.id;
        let caller = env.caller(&env.ann).await;
        let sizes = Sizes {
            members: ROWS,
            invites: ROWS,
            activity: ROWS,
            projects: ROWS,
            others: ROWS,
        };
        add_lists(database, env.ann.id, &sizes).await;
        let (catalog, sent) = env.catalog.counted();
        Self {
            catalog,
            sent,
            organization: env.organization,
            caller,
            role,
        }
    }

    /// Reads a page of every list once: its name, length, rows of the page, and statements.
    async fn read_all(&self) -> Vec<(&'static str, u64, usize, Vec<String>)> {
        let (catalog, here) = (&self.catalog, self.organization);
        let mut read = Vec::new();
        macro_rules! list {
            ($name:literal, $page:expr) => {
                let page = $page.await.unwrap();
                read.push(($name, page.count, page.rows.len(), self.sent.take()));
            };
        }
        let all = RoleFilter::default();
        list!("members", Members::new(catalog).list(here, None, PAGE));
        list!("invites", Invites::new(catalog).list(here, PAGE));
        list!("domains", Domains::new(catalog).list(here, PAGE));
        list!("roles", Roles::new(catalog).list(here, &all, PAGE));
        let members = Roles::new(catalog).members(here, self.role, PAGE);
        let members = async { members.await.map(Option::unwrap) };
        list!("role members", members);
        list!(
            "organizations",
            Organizations::new(catalog).list_of(&self.caller, PAGE)
        );
        list!("projects", Projects::new(catalog).list(here, None, PAGE));
        list!(
            "keys",
            PersonalKeys::new(catalog).list_own(&self.caller, PAGE)
        );
        list!("proxy records", ProxyRecords::new(catalog).list(here, PAGE));
        let migrations = HistoricalMigrations::new(catalog).list(here, PAGE);
        list!("historical migrations", migrations);
        list!(
            "plugins",
            Plugins::new(catalog).list(here, PluginFamily::Plugins, PAGE)
        );
        let unused = Plugins::new(catalog).list_unused(here, PluginFamily::Plugins, PAGE);
        list!("unused plugins", unused);
        let exporting = Plugins::new(catalog).list_exporting(here, PluginFamily::Plugins, PAGE);
        list!("exporting plugins", exporting);
        for (scopes, item_id) in [
            (vec![], None),
            (vec![ActivityScope::Domain], Some("x".to_owned())),
        ] {
            let filter = ActivityFilter {
                organization_id: here,
                scopes,
                item_id,
            };
            list!("activity", ActivityLog::new(catalog).list(&filter, PAGE));
        }
        let place = ExportPlace {
            organization_id: here,
            project_id: None,
        };
        list!("exports", BatchExports::new(catalog).list(place, PAGE));
        let found = BatchExports::new(catalog).list(place, PAGE).await.unwrap();
        drop(self.sent.take());
        let export = found.rows[0].export.id;
        let runs = ExportRuns::new(catalog).list(place, export, RunFilter::default(), PAGE);
        list!("runs", async { runs.await.map(Option::unwrap) });
        let backfills = Backfills::new(catalog).list(place, export, PAGE);
        list!("backfills", async { backfills.await.map(Option::unwrap) });
        let filter = ExportLogFilter::default();
        let logs = ExportLogs::new(catalog).list(place, export, &filter, PAGE);
        list!("logs", async { logs.await.map(Option::unwrap) });
        read
    }
}

async fn long_lists_take_three_statements(database: TestDatabase) {
    let lists = LongLists::new(&database).await;
    for (name, count, rows, sent) in lists.read_all().await {
        assert!(count >= u64::from(ROWS), "{name}: {count}");
        assert!(rows >= 500, "{name}: {rows}");
        assert!(sent.len() <= STATEMENTS_MAX, "{name}: {sent:#?}");
    }
}

async fn a_page_is_the_same_near_and_far_from_the_start(database: TestDatabase) {
    let lists = LongLists::new(&database).await;
    let (catalog, here) = (&lists.catalog, lists.organization);
    let near = PageRequest {
        limit: 1000,
        offset: 0,
    };
    let far = PageRequest {
        limit: 7,
        offset: 900,
    };
    let whole = Members::new(catalog)
        .list(here, None, near)
        .await
        .unwrap()
        .rows;
    let part = Members::new(catalog)
        .list(here, None, far)
        .await
        .unwrap()
        .rows;
    assert_eq!(part, whole[900..907]);
    let all = ActivityFilter {
        organization_id: here,
        scopes: Vec::new(),
        item_id: None,
    };
    let some = ActivityFilter {
        scopes: vec![ActivityScope::Domain, ActivityScope::Role],
        ..all.clone()
    };
    for filter in [all, some] {
        let whole = ActivityLog::new(catalog)
            .list(&filter, near)
            .await
            .unwrap()
            .rows;
        let part = ActivityLog::new(catalog)
            .list(&filter, far)
            .await
            .unwrap()
            .rows;
        assert_eq!(part, whole[900..907]);
    }
}

/// No statement reads a whole table, or sorts a long list for one page.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_reads_every_list_in_order_by_an_index() {
    let database = TestDatabase::of(DatabaseKind::Sqlite).await;
    let lists = LongLists::new(&database).await;
    let mut slow = Vec::new();
    for (name, _, _, sent) in lists.read_all().await {
        for sql in sent {
            let plan = database.sqlite_plan(&sql).await.unwrap();
            let may_sort = SORTED.contains(&name);
            let is_slow = |line: &String| {
                // A scan of a subquery's result is no scan of a table.
                let scanned = line.strip_prefix("SCAN ");
                let found = |name: &str| {
                    ["part", "first", "numbered"].contains(&name) || name.starts_with("(subquery")
                };
                scanned.is_some_and(|name| !found(name))
                    || (line.contains("TEMP B-TREE") && !may_sort)
            };
            if plan.iter().any(is_slow) {
                let sql = sql.replace("?, ", "");
                slow.push(format!("{name}: {sql}\n{plan:#?}"));
            }
        }
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
