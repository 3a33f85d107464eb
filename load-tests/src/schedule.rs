//! Schedule of the requests.
//!
//! All connections of a run draw tickets from one schedule, so whichever is free takes the next
//! request. In an open loop a ticket says when its request is due, fixed from the start. The first
//! free connection of each thread waits for that time; the others queue behind it. If no connection
//! is free in time, the request goes out late, and its latency counts from when it was due. After
//! the window no further request is sent; [`Schedule::due_before`] tells how many were due.

use crate::plan::Plan;
use crate::stages::RateCurve;
use crate::stop::Stop;
use anyhow::{Context, Result};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;

/// Tickets of a run.
#[derive(Debug)]
pub struct Schedule {
    times: OnceLock<Times>,
    /// Times when requests are due; `None` in a closed loop.
    curve: Option<RateCurve>,
    requests_max: u64,
    taken: AtomicU64,
    stop: Stop,
}

/// Start and window of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Time when the first request is due.
    pub start: Instant,
    /// End of the warm-up; figures count from here.
    pub window_start: Instant,
    /// End of the window: no request is sent any more and figures end.
    pub window_end: Instant,
}

/// Permission to send one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// Send at once.
    Now,
    /// Send at this time, when the request is due.
    At(Instant),
}

impl Schedule {
    /// Schedule of a plan, not started.
    #[must_use]
    pub fn new(plan: &Plan, stop: Stop) -> Self {
        Self {
            times: OnceLock::new(),
            curve: plan.mode.curve(plan.warm_up, plan.mean_events()),
            requests_max: plan.requests_max.unwrap_or(u64::MAX),
            taken: AtomicU64::new(0),
            stop,
        }
    }

    /// Starts the schedule; a second call changes nothing.
    pub fn start(&self, start: Instant, plan: &Plan) -> Times {
        *self.times.get_or_init(|| Times {
            start,
            window_start: start + plan.warm_up,
            window_end: start + plan.warm_up + plan.duration,
        })
    }

    /// Times of the run, once started.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        self.times.get().copied()
    }

    /// Draws the next ticket; `None` when the run is over.
    #[must_use]
    pub fn take(&self) -> Option<Ticket> {
        let times = self.times()?;
        if self.stop.is_asked() {
            return None;
        }
        // Checked before a ticket is drawn, so that every drawn ticket that is due is sent.
        if Instant::now() >= times.window_end {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        if number >= self.requests_max {
            return None;
        }
        let Some(curve) = &self.curve else {
            return Some(Ticket::Now);
        };
        let due = times.start + curve.due(number)?;
        (due < times.window_end).then_some(Ticket::At(due))
    }

    /// End of the run: of its window, or the time when it was asked to stop.
    #[must_use]
    pub fn end(&self) -> Option<Instant> {
        let window_end = self.times()?.window_end;
        let asked = self.stop.asked_at();
        Some(asked.map_or(window_end, |asked| asked.min(window_end)))
    }

    /// Number of requests due before an instant; 0 in a closed loop.
    #[must_use]
    pub fn due_before(&self, instant: Instant) -> u64 {
        let (Some(times), Some(curve)) = (self.times(), &self.curve) else {
            return 0;
        };
        let Some(elapsed) = instant.checked_duration_since(times.start) else {
            return 0;
        };
        curve.due_before(elapsed).min(self.requests_max)
    }

    /// Time when a request of an open loop is due, by its number.
    #[must_use]
    pub fn due(&self, number: u64) -> Option<Instant> {
        Some(self.times()?.start + self.curve.as_ref()?.due(number)?)
    }
}

/// Paces one thread's requests: its connections queue here for tickets.
///
/// The timer is exact to some tens of microseconds, whereas tokio's own timer is exact to a
/// millisecond.
#[derive(Debug)]
pub struct Pacer {
    timer: tokio::sync::Mutex<AsyncFd<OwnedFd>>,
}

impl Pacer {
    /// Creates a pacer for the current thread; to be called inside its runtime.
    ///
    /// # Errors
    /// No timer is available.
    #[expect(
        deprecated,
        reason = "its replacement is unsafe and asks for what an OwnedFd already promises"
    )]
    pub fn new() -> Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("timerfd_create")?;
        Ok(Self {
            timer: tokio::sync::Mutex::new(AsyncFd::new(timer).context("timerfd")?),
        })
    }

    /// Draws a ticket and waits until it is due; returns the time when it was due.
    ///
    /// # Errors
    /// The timer failed.
    pub async fn next(&self, schedule: &Schedule) -> Result<Option<Instant>> {
        if schedule.curve.is_none() {
            return Ok(schedule.take().map(|_| Instant::now()));
        }
        let timer = self.timer.lock().await;
        match schedule.take() {
            Some(Ticket::At(due)) => {
                wait_until(&timer, due).await?;
                Ok(Some(due))
            }
            Some(Ticket::Now) => Ok(Some(Instant::now())),
            None => Ok(None),
        }
    }
}

async fn wait_until(timer: &AsyncFd<OwnedFd>, due: Instant) -> Result<()> {
    let wait = due.saturating_duration_since(Instant::now());
    if wait.is_zero() {
        return Ok(());
    }
    let once = Itimerspec {
        it_interval: timespec(Duration::ZERO),
        it_value: timespec(wait),
    };
    timerfd_settime(timer.get_ref(), TimerfdTimerFlags::empty(), &once)
        .context("timerfd_settime")?;
    loop {
        let mut ready = timer.readable().await.context("timerfd")?;
        let mut expirations = [0; 8];
        match rustix::io::read(timer.get_ref(), &mut expirations) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
            Err(error) => return Err(error).context("timerfd"),
        }
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Mode;
    use crate::stages::Stage;

    fn plan(mode: Mode) -> Plan {
        let mut plan = Plan::new("http://h", "key");
        plan.mode = mode;
        plan.batch_events = 10;
        plan.warm_up = Duration::from_secs(1);
        plan.duration = Duration::from_secs(1);
        plan
    }

    #[test]
    fn an_open_loop_is_due_at_even_intervals_until_its_end() {
        let plan = plan(Mode::Open {
            events_per_second: 40.0,
        });
        let schedule = Schedule::new(&plan, Stop::default());
        assert_eq!(schedule.take(), None, "not started");
        let start = Instant::now();
        schedule.start(start, &plan);
        for quarter in 0..8 {
            let due = start + Duration::from_millis(250 * quarter);
            assert_eq!(schedule.take(), Some(Ticket::At(due)));
        }
        assert_eq!(schedule.take(), None);
    }

    #[test]
    fn stages_follow_the_warm_up_and_end_the_run() {
        let stages = ["1s:40", "1s:0", "1s:0..40"].map(|text| Stage::parse(text).unwrap());
        let plan = plan(Mode::Closed).with_stages(stages.to_vec());
        let schedule = Schedule::new(&plan, Stop::default());
        let start = Instant::now();
        let times = schedule.start(start, &plan);
        assert_eq!(times.window_end, start + Duration::from_secs(4));
        for quarter in 0..8 {
            let due = start + Duration::from_millis(250 * quarter);
            assert_eq!(schedule.take(), Some(Ticket::At(due)));
        }
        // A ramp to four requests a second has two of them, at its beginning and after √½ s.
        let ramp = start + Duration::from_secs(3);
        assert_eq!(schedule.take(), Some(Ticket::At(ramp)));
        assert!(schedule.due(9).unwrap() > ramp + Duration::from_millis(700));
        assert_eq!(schedule.due_before(times.window_end), 10);
        assert!(schedule.take().is_some());
        assert_eq!(schedule.take(), None);
    }

    #[test]
    fn the_number_of_due_requests_is_known_without_drawing_tickets() {
        let plan = plan(Mode::Open {
            events_per_second: 30.0,
        });
        let stop = Stop::default();
        let schedule = Schedule::new(&plan, stop.clone());
        let start = Instant::now();
        let times = schedule.start(start, &plan);
        for number in 0..6 {
            let due = schedule.due(number).unwrap();
            assert_eq!(schedule.due_before(due), number);
            assert_eq!(
                schedule.due_before(due + Duration::from_nanos(1)),
                number + 1
            );
        }
        assert_eq!(schedule.due_before(start - Duration::from_secs(1)), 0);
        assert_eq!(schedule.due_before(times.window_start), 3);
        assert_eq!(schedule.due_before(times.window_end), 6);
        assert_eq!(schedule.end(), Some(times.window_end));
        stop.ask();
        assert_eq!(schedule.end(), stop.asked_at());

        let few = Schedule::new(&plan.clone().with_requests(2), Stop::default());
        few.start(start, &plan);
        assert_eq!(few.due_before(times.window_end), 2);
        let plan = self::plan(Mode::Closed);
        let closed = Schedule::new(&plan, Stop::default());
        closed.start(start, &plan);
        assert_eq!(closed.due_before(times.window_end), 0);
    }

    #[test]
    fn no_ticket_is_drawn_after_the_window_even_if_due() {
        let plan = plan(Mode::Open {
            events_per_second: 40.0,
        });
        let schedule = Schedule::new(&plan, Stop::default());
        let past = Instant::now().checked_sub(Duration::from_secs(2)).unwrap();
        let times = schedule.start(past, &plan);
        assert_eq!(schedule.take(), None);
        assert_eq!(schedule.due_before(times.window_end), 8);
    }

    #[test]
    fn a_run_ends_with_its_requests_or_when_it_is_stopped() {
        let plan = plan(Mode::Closed).with_requests(2);
        let stop = Stop::default();
        let schedule = Schedule::new(&plan, stop.clone());
        schedule.start(Instant::now(), &plan);
        assert_eq!(schedule.take(), Some(Ticket::Now));
        assert_eq!(schedule.take(), Some(Ticket::Now));
        assert_eq!(schedule.take(), None);

        let schedule = Schedule::new(&plan, stop.clone());
        schedule.start(Instant::now(), &plan);
        stop.ask();
        assert_eq!(schedule.take(), None);
    }

    #[tokio::test]
    async fn a_ticket_is_not_handed_out_before_it_is_due() {
        let plan = plan(Mode::Open {
            events_per_second: 2000.0,
        });
        let schedule = Schedule::new(&plan, Stop::default());
        let pacer = Pacer::new().unwrap();
        schedule.start(Instant::now(), &plan);
        for _ in 0..20 {
            let due = pacer.next(&schedule).await.unwrap().unwrap();
            assert!(Instant::now() >= due);
        }
    }
}
