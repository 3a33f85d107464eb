//! Numbers of events without a ClickHouse: one event of each step and name, and what was asked.

use async_trait::async_trait;
use millrace_admin::project_stats::{
    EventCounts, ProjectStats, StatsAnswer, StatsFailure, StatsGrouping, StatsQuestion, StatsSum,
};
use millrace_catalog::UtcTime;
use std::sync::Mutex;

/// Step whose numbers take too long: an hour in 1970.
pub const SLOW: &str = "1970-01-01T00:00:00Z";
const STEPS_MAX: usize = 3;

/// Numbers of events, with the questions.
#[derive(Debug, Default)]
pub struct FakeStats {
    pub questions: Mutex<Vec<StatsQuestion>>,
}

#[async_trait]
impl ProjectStats for FakeStats {
    async fn read(&self, question: StatsQuestion) -> Result<StatsAnswer, StatsFailure> {
        self.questions.lock().unwrap().push(question.clone());
        if question.after.0 == 0 {
            return Err(StatsFailure::LimitExceeded);
        }
        let step = question.step.seconds() * 1_000_000;
        let names = match question.grouping {
            StatsGrouping::None => vec![String::new()],
            StatsGrouping::Project | StatsGrouping::EachProject => {
                question.project_ids.iter().map(i64::to_string).collect()
            }
            _ => vec!["one".to_owned(), String::new()],
        };
        let starts = (question.after.0..question.before.0).step_by(step as usize);
        let sums = starts.take(STEPS_MAX).flat_map(|at| {
            let sum = |name: &String| StatsSum {
                at: UtcTime(at),
                name: name.clone(),
                counts: EventCounts {
                    accepted: 2,
                    rejected: 1,
                    historical: 0,
                    bytes: 20,
                },
            };
            names.iter().map(sum).collect::<Vec<_>>()
        });
        Ok(StatsAnswer {
            since: UtcTime(0),
            accepted_until: question.before,
            rejected_until: question.after,
            sums: sums.collect(),
        })
    }
}
