//! Limit on live streams at a time: a few for each user, more for each project, more in all.

use crate::response::keyed::KeyedSemaphores;
use millrace_live::{PROJECT_VIEWERS_MAX, VIEWERS_MAX};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most live streams at a time.
pub(crate) const ALL_MAX: usize = VIEWERS_MAX;
/// Most of them of one project.
pub(crate) const PROJECT_MAX: usize = PROJECT_VIEWERS_MAX;
/// Most of them of one user.
pub(crate) const USER_MAX: usize = 4;

/// Slots of live streams. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct LiveSlots {
    all: Arc<Semaphore>,
    projects: Arc<KeyedSemaphores<i64>>,
    users: Arc<KeyedSemaphores<i64>>,
}

/// Permit for one live stream, held until it is dropped.
#[derive(Debug)]
pub(crate) struct LivePermit {
    _all: OwnedSemaphorePermit,
    _project: OwnedSemaphorePermit,
    _user: OwnedSemaphorePermit,
}

impl Default for LiveSlots {
    fn default() -> Self {
        Self {
            all: Arc::new(Semaphore::new(ALL_MAX)),
            projects: Arc::new(KeyedSemaphores::new(PROJECT_MAX)),
            users: Arc::new(KeyedSemaphores::new(USER_MAX)),
        }
    }
}

impl LiveSlots {
    /// Takes a slot of a project and a user; `None` if there is none. Nobody waits for one: streams
    /// have no end of their own.
    pub(crate) fn acquire(&self, project_id: i64, user_id: i64) -> Option<LivePermit> {
        let user = self.users.of(user_id).try_acquire_owned().ok()?;
        let project = self.projects.of(project_id).try_acquire_owned().ok()?;
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        Some(LivePermit {
            _all: all,
            _project: project,
            _user: user,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_projects_and_all_have_limits_of_their_own() {
        let slots = LiveSlots::default();
        let mut held = Vec::new();
        for _ in 0..USER_MAX {
            held.push(slots.acquire(1, 1).unwrap());
        }
        assert!(slots.acquire(2, 1).is_none(), "of another project");
        for user_id in 2.. {
            let Some(permit) = slots.acquire(1, user_id) else {
                break;
            };
            held.push(permit);
        }
        assert_eq!(held.len(), PROJECT_MAX);
        for number in 100.. {
            let Some(permit) = slots.acquire(number, number) else {
                break;
            };
            held.push(permit);
        }
        assert_eq!(held.len(), ALL_MAX);
        held.truncate(USER_MAX);
        held.pop();
        slots.acquire(2, 1).unwrap();
    }
}
