//! When requests are sent.
//!
//! All connections of a run draw tickets from one schedule, so whichever is free takes the next
//! request. In an open loop a ticket says when its request is due, fixed from the start: the
//! first connection of each thread to be free waits for that time, the others queue behind it. If
//! none is free in time the request goes out late, and its latency counts from when it was due. When
//! the window is over no further request is sent: what was due until then is told by
//! [`Schedule::due_before`].

use crate::plan::{Mode, Plan};
use crate::run::Stop;
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

/// The tickets of a run.
#[derive(Debug)]
pub struct Schedule {
    times: OnceLock<Times>,
    interval_ns: Option<f64>,
    requests_max: u64,
    taken: AtomicU64,
    stop: Stop,
}

/// The three instants of a run.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// The first request is due.
    pub start: Instant,
    /// The warm-up is over; figures count from here.
    pub window_start: Instant,
    /// No request is sent any more and figures end.
    pub window_end: Instant,
}

/// Permission to send one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ticket {
    /// At once.
    Now,
    /// When it is due.
    At(Instant),
}

impl Schedule {
    /// The schedule of a plan, not started.
    #[must_use]
    pub fn new(plan: &Plan, stop: Stop) -> Self {
        let interval_ns = match plan.mode {
            Mode::Closed => None,
            Mode::Open { events_per_second } => {
                Some(1e9 * f64::from(plan.batch_events) / events_per_second)
            }
        };
        Self {
            times: OnceLock::new(),
            interval_ns,
            requests_max: plan.requests_max.unwrap_or(u64::MAX),
            taken: AtomicU64::new(0),
            stop,
        }
    }

    /// Starts it; a second call changes nothing.
    pub fn start(&self, start: Instant, plan: &Plan) -> Times {
        *self.times.get_or_init(|| Times {
            start,
            window_start: start + plan.warm_up,
            window_end: start + plan.warm_up + plan.duration,
        })
    }

    /// The instants, once started.
    #[must_use]
    pub fn times(&self) -> Option<Times> {
        self.times.get().copied()
    }

    /// The next ticket; `None` when the run is over.
    #[must_use]
    pub fn take(&self) -> Option<Ticket> {
        let times = self.times()?;
        if self.stop.is_asked() {
            return None;
        }
        // Before a ticket is drawn, so that every drawn one that is due is sent.
        if Instant::now() >= times.window_end {
            return None;
        }
        let number = self.taken.fetch_add(1, Ordering::Relaxed);
        if number >= self.requests_max {
            return None;
        }
        let Some(interval_ns) = self.interval_ns else {
            return Some(Ticket::Now);
        };
        let due = due(times, number, interval_ns);
        (due < times.window_end).then_some(Ticket::At(due))
    }

    /// When the run was over: at the end of its window, or when it was asked to stop.
    #[must_use]
    pub fn end(&self) -> Option<Instant> {
        let window_end = self.times()?.window_end;
        let asked = self.stop.asked_at();
        Some(asked.map_or(window_end, |asked| asked.min(window_end)))
    }

    /// How many requests were due before an instant; in a closed loop none ever is.
    #[must_use]
    pub fn due_before(&self, instant: Instant) -> u64 {
        let (Some(times), Some(interval_ns)) = (self.times(), self.interval_ns) else {
            return 0;
        };
        let Some(elapsed) = instant.checked_duration_since(times.start) else {
            return 0;
        };
        // The division is not exact: the neighbours are looked at.
        let mut count = (elapsed.as_nanos() as f64 / interval_ns) as u64;
        while due(times, count, interval_ns) < instant {
            count += 1;
        }
        while count > 0 && due(times, count - 1, interval_ns) >= instant {
            count -= 1;
        }
        count.min(self.requests_max)
    }

    /// When a request of an open loop is due, by its number.
    #[must_use]
    pub fn due(&self, number: u64) -> Option<Instant> {
        Some(due(self.times()?, number, self.interval_ns?))
    }
}

fn due(times: Times, number: u64, interval_ns: f64) -> Instant {
    times.start + Duration::from_nanos((number as f64 * interval_ns) as u64)
}

/// One thread's place in the queue for tickets, with a timer that is exact to some tens of
/// microseconds (tokio's own timer is exact to a millisecond).
#[derive(Debug)]
pub struct Turn {
    timer: tokio::sync::Mutex<AsyncFd<OwnedFd>>,
}

impl Turn {
    /// A place for the current thread; call it inside its runtime.
    ///
    /// # Errors
    /// No timer to be had.
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

    /// Takes a ticket and waits until it is due; returns when that was.
    ///
    /// # Errors
    /// The timer failed.
    pub async fn next(&self, schedule: &Schedule) -> Result<Option<Instant>> {
        if schedule.interval_ns.is_none() {
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
    fn what_is_due_is_known_without_its_tickets() {
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
    fn nothing_is_begun_after_the_window_though_it_was_due() {
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
        let turn = Turn::new().unwrap();
        schedule.start(Instant::now(), &plan);
        for _ in 0..20 {
            let due = turn.next(&schedule).await.unwrap().unwrap();
            assert!(Instant::now() >= due);
        }
    }
}
