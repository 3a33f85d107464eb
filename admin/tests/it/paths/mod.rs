//! Tests of every method of every path, as `paths.toml` lists them.
//!
//! | Module | Holds |
//! |---|---|
//! | `table` | the parsed `paths.toml` |
//! | `shapes` | fields of successful responses |
//! | `sample` | an organization with one resource of each kind |
//! | `walk` | access to each operation, and its successful response |
//! | `examples`, `alike` | the document's examples, recorded from the walk |
//! | `isolation` | each operation with ids of another organization |
//! | `names` | file and document list the same operations |

mod alike;
mod examples;
mod isolation;
mod names;
pub mod sample;
mod shapes;
mod table;
mod walk;

use crate::Fixture;
use millrace_admin::Services;
use millrace_admin::dns::Dns;
use millrace_admin::mail::{MailSettings, Outbox};
use millrace_catalog::Level;
use sample::SampleData;
use std::time::Duration;

/// Creates a fixture with two organizations that have the same resources; returns both.
async fn two_organizations() -> (Fixture, SampleData, SampleData) {
    let fixture = Fixture::with_services(without_servers).await;
    let mine = fixture.made.organization_id;
    let theirs = fixture.foreign_organization().await;
    let owner = fixture
        .member_of(mine, "ann@mine.example", Level::Owner)
        .await;
    let stranger = fixture
        .member_of(theirs, "eve@theirs.example", Level::Owner)
        .await;
    let mine = SampleData::fill(&fixture, "mine", mine, &owner).await;
    let theirs = SampleData::fill(&fixture, "theirs", theirs, &stranger).await;
    (fixture, mine, theirs)
}

/// Sets a nameserver and a mail server where nobody listens, so that nothing outside of this
/// machine is queried, and an address at which people may sign in.
fn without_servers(services: &mut Services) {
    let nobody = ([127, 0, 0, 1], 9).into();
    services.dns = Dns::with_timeout(Some(nobody), Duration::from_millis(10));
    let settings = MailSettings::new("smtp://127.0.0.1:9", "millrace@example.com", None);
    services.outbox = Some(Outbox::new(settings.unwrap()));
    services.config.public_url = Some("https://admin.example:8010".to_owned());
}
