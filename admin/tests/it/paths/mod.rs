//! The walk through every method of every path, as `paths.toml` lists them.
//!
//! | Module | Holds |
//! |---|---|
//! | `table` | the file, read |
//! | `shapes` | what good answers look like |
//! | `world` | one of everything in an organization |
//! | `walk` | each row by itself: who is refused, and what a good call answers |
//! | `isolation` | each row with the ids of another organization |
//! | `names` | that file, document and router name the same |

mod isolation;
mod names;
mod shapes;
mod table;
mod walk;
pub mod world;

use crate::Fixture;
use millrace_admin::Services;
use millrace_admin::dns::Dns;
use millrace_catalog::Level;
use std::time::Duration;
use world::World;

/// A fixture with two organizations that have the same things, and what the walker's has.
async fn two_worlds() -> (Fixture, World, World) {
    let fixture = Fixture::with_services(deaf).await;
    let mine = fixture.made.organization_id;
    let theirs = fixture.foreign_organization().await;
    let owner = fixture
        .member_of(mine, "ann@mine.example", Level::Owner)
        .await;
    let stranger = fixture
        .member_of(theirs, "eve@theirs.example", Level::Owner)
        .await;
    let mine = World::fill(&fixture, "mine", mine, &owner).await;
    let theirs = World::fill(&fixture, "theirs", theirs, &stranger).await;
    (fixture, mine, theirs)
}

/// Nothing outside of this machine is asked: the nameserver is where nobody listens.
fn deaf(services: &mut Services) {
    let nobody = ([127, 0, 0, 1], 9).into();
    services.dns = Dns::with_timeout(Some(nobody), Duration::from_millis(10));
}
