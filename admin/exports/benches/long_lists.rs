//! Bench of long lists in SQLite: 100 000 members, 10 000 invites, their activity log, 100
//! projects, 1 000 of all else, in one organization.
//!
//! Criterion reports means; here the slowest of a hundred counts, so this prints percentiles.
//!
//! ```text
//! cargo bench -p millrace-exports --bench long_lists
//! ```

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a bench: ends where something fails, looks at the clock, prints"
)]

use millrace_catalog::testing::TestDatabase;
use millrace_catalog::testing::lists::{Sizes, add_lists};
use millrace_catalog::{ActivityScope, Actor, Catalog, PageRequest, Scopes};
use millrace_exports::{BatchExports, ExportPlace};
use millrace_organizations::{
    ActivityFilter, ActivityLog, Caller, Domains, Invites, Members, NewPersonalKey, NewRole,
    NewUser, Organizations, PersonalKeys, Projects, ProxyRecords, RoleFilter, Roles, Users,
};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Allocator of the binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SIZES: Sizes = Sizes {
    members: 100_000,
    invites: 10_000,
    activity: 110_000,
    projects: 100,
    others: 1000,
};
const ROUNDS: usize = 300;
const THOUSAND: PageRequest = PageRequest {
    limit: 1000,
    offset: 0,
};

#[tokio::main]
async fn main() {
    let database = TestDatabase::sqlite();
    let catalog = Catalog::open(database.url()).await.unwrap();
    let (caller, here) = acme(&catalog).await;
    add_lists(&database, caller.user.id, &SIZES).await;
    println!("{:<32} {:>9} {:>9} {:>9}", "", "p50", "p99", "max");
    people(&catalog, here).await;
    things(&catalog, &caller, here).await;
    activity(&catalog, here).await;
    single_reads(&catalog, &caller, here).await;
}

/// Organization "Acme" with a role "Everybody", and its owner.
async fn acme(catalog: &Catalog) -> (Caller, Uuid) {
    let new = NewUser {
        email: "ann@example.com".to_owned(),
        first_name: "Ann".to_owned(),
        last_name: String::new(),
    };
    let ann = Users::new(catalog).create(new).await.unwrap();
    let system = Actor::system();
    let made = Organizations::new(catalog).create(&system, "Acme", Some(ann.id));
    let here = made.await.unwrap().id;
    let role = Roles::new(catalog).create(&system, here, NewRole::named("Everybody"));
    role.await.unwrap();
    let new = NewPersonalKey {
        email: ann.email,
        label: "Bench".to_owned(),
        scopes: Scopes::all(),
        expires_at: None,
        scoped_organizations: None,
    };
    let key = PersonalKeys::new(catalog)
        .create(&system, new)
        .await
        .unwrap();
    let caller = PersonalKeys::new(catalog)
        .authenticate(key.value.expose())
        .await
        .unwrap();
    (caller.unwrap(), here)
}

/// Times an operation, and prints its percentiles.
macro_rules! time {
    ($name:expr, $read:expr) => {{
        let mut took = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            $read.await.unwrap();
            took.push(begun.elapsed());
        }
        print($name, took);
    }};
}

const fn page(offset: u64) -> PageRequest {
    PageRequest { limit: 100, offset }
}

async fn people(catalog: &Catalog, here: Uuid) {
    let read = |page| Members::new(catalog).list(here, None, page);
    time!("members, first 100", read(page(0)));
    time!("members, 100 in the middle", read(page(50_000)));
    time!("members, last 100", read(page(99_900)));
    time!("members, first 1000", read(THOUSAND));
    let address = Some("crowd77777@example.com");
    time!(
        "members, by address",
        Members::new(catalog).list(here, address, page(0))
    );
    time!(
        "invites, first 100",
        Invites::new(catalog).list(here, page(0))
    );
    time!(
        "invites, last 100",
        Invites::new(catalog).list(here, page(9_900))
    );
    time!(
        "domains, first 100",
        Domains::new(catalog).list(here, page(0))
    );
    let small = RoleFilter {
        name: Some("r1".to_owned()),
        ..RoleFilter::default()
    };
    time!(
        "roles, by name",
        Roles::new(catalog).list(here, &small, page(0))
    );
}

async fn things(catalog: &Catalog, caller: &Caller, here: Uuid) {
    time!(
        "projects, first 100",
        Projects::new(catalog).list(here, None, page(0))
    );
    time!(
        "organizations, first 100",
        Organizations::new(catalog).list_of(caller, page(0))
    );
    time!(
        "proxy records, first 100",
        ProxyRecords::new(catalog).list(here, page(0))
    );
    let place = ExportPlace {
        organization_id: here,
        project_id: None,
    };
    let read = |page| BatchExports::new(catalog).list(place, page);
    time!("exports, first 100", read(page(0)));
    time!("exports, all 1000", read(THOUSAND));
}

async fn activity(catalog: &Catalog, here: Uuid) {
    let all = ActivityFilter {
        organization_id: here,
        scopes: Vec::new(),
        item_id: None,
    };
    let of = |scope| ActivityFilter {
        scopes: vec![scope],
        ..all.clone()
    };
    let (many, few) = (of(ActivityScope::Domain), of(ActivityScope::Role));
    let item = ActivityFilter {
        item_id: Some("x".to_owned()),
        ..all.clone()
    };
    time!(
        "activity, first 100",
        ActivityLog::new(catalog).list(&all, page(0))
    );
    let read = |offset| ActivityLog::new(catalog).list(&all, page(offset));
    time!("activity, 100 in the middle", read(55_000));
    time!("activity, last 100", read(109_900));
    let read = |filter| ActivityLog::new(catalog).list(filter, page(0));
    time!("activity, of a frequent scope", read(&many));
    time!("activity, of a rare scope", read(&few));
    time!("activity, of a busy item", read(&item));
}

async fn single_reads(catalog: &Catalog, caller: &Caller, here: Uuid) {
    let member = caller.user.uuid;
    time!(
        "one organization",
        Organizations::new(catalog).get_of(caller, here)
    );
    time!(
        "access to an organization",
        Organizations::new(catalog).access(caller, here)
    );
    time!("one member", Members::new(catalog).get(here, member));
}

fn print(name: &str, mut took: Vec<Duration>) {
    took.sort();
    let at = |percent: usize| {
        took.get(took.len() * percent / 100)
            .copied()
            .unwrap_or_default()
    };
    let worst = took.last().copied().unwrap_or_default();
    println!("{name:<32} {:>9.2?} {:>9.2?} {worst:>9.2?}", at(50), at(99));
}
