//! Fetches of exports from fakes of their APIs: complete, each part once, whatever fails.

use async_trait::async_trait;
use millrace_import::check::{Check, run as check};
use millrace_import::fetch::{FetchSummary, run as fetch};
use millrace_import::files::find;
use millrace_import::plan::Plan;
use millrace_import::send::client;
use millrace_import::staging::Staging;
use millrace_import::stats::StageStats;
use millrace_sources::testing::{FakeApi, Fault, Service};
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, FetchError, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, Part, RateLimit, Transfer,
};
use std::future::pending;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;
use tokio::time::Instant;

const EVENTS_PER_PART: u64 = 20;
const RATE_LIMIT: RateLimit = RateLimit {
    per_second: 1_000,
    per_hour: 1_000_000,
};

fn mixpanel(api: &FakeApi) -> MixpanelExport {
    MixpanelExport::new(MixpanelSettings {
        url: api.url.clone(),
        credentials: MixpanelCredentials::ProjectSecret("secret".to_owned()),
        from: "2024-05-01".to_owned(),
        until: "2024-05-05".to_owned(),
        days_per_part: 1,
        rate_limit: RATE_LIMIT,
    })
    .unwrap()
}

fn amplitude(api: &FakeApi) -> AmplitudeExport {
    AmplitudeExport::new(AmplitudeSettings {
        url: api.url.clone(),
        api_key: "key".to_owned(),
        secret_key: "secret".to_owned(),
        from: "2024-05-01".to_owned(),
        until: "2024-05-01".to_owned(),
        hours_per_part: 1,
        rate_limit: RATE_LIMIT,
    })
    .unwrap()
}

fn fetched(export: &dyn Export, staging: &Staging) -> anyhow::Result<FetchSummary> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let transfer = Transfer::new(client().unwrap());
    runtime.block_on(fetch(export, staging, &transfer, &StageStats::default()))
}

fn events_in(staging: &Staging) -> u64 {
    let stage = Check {
        plan: Plan::default(),
        files: find(&[staging.data().to_string_lossy().into_owned()]).unwrap(),
        files_parallel: 1,
        records_max: None,
        samples: 0,
    };
    let found = check(&stage, &StageStats::default());
    assert_eq!(found.broken, []);
    found.records
}

#[test]
fn an_export_is_fetched_completely_despite_throttling() {
    let table: [(Service, u64); 2] = [(Service::Mixpanel, 5), (Service::Amplitude, 24)];
    for (service, parts) in table {
        let dir = TempDir::new().unwrap();
        let staging = Staging::open(dir.path()).unwrap();
        let api = FakeApi::start(service, EVENTS_PER_PART);
        api.expect(&[Fault::Throttled(Some(0)), Fault::None, Fault::Status(503)]);
        let export: Box<dyn Export> = match service {
            Service::Mixpanel => Box::new(mixpanel(&api)),
            Service::Amplitude => Box::new(amplitude(&api)),
        };
        let done = fetched(&*export, &staging).unwrap();
        assert_eq!((done.new as u64, done.known), (parts, 0));
        assert_eq!(events_in(&staging), parts * EVENTS_PER_PART);
        // Only the part that was lost is fetched again.
        let requests_before = api.requests().len();
        let lost = std::fs::read_dir(staging.data()).unwrap().next().unwrap();
        std::fs::remove_file(lost.unwrap().path()).unwrap();
        let again = fetched(&*export, &staging).unwrap();
        assert_eq!((again.new, again.known as u64), (1, parts - 1));
        assert_eq!(api.requests().len(), requests_before + 1);
        assert_eq!(events_in(&staging), parts * EVENTS_PER_PART);
    }
}

#[test]
fn wrong_credentials_end_the_fetch_and_keep_the_fetched_parts() {
    let dir = TempDir::new().unwrap();
    let staging = Staging::open(dir.path()).unwrap();
    let api = FakeApi::start(Service::Mixpanel, EVENTS_PER_PART);
    api.expect(&[Fault::None, Fault::Status(401)]);
    let error = fetched(&mixpanel(&api), &staging).unwrap_err();
    assert!(
        format!("{error:#}").contains("mixpanel-2024-05-0"),
        "{error:#}"
    );
    let done = fetched(&mixpanel(&api), &staging).unwrap();
    assert_eq!(done.new + done.known, 5);
    assert_eq!(events_in(&staging), 5 * EVENTS_PER_PART);
}

/// Export of one part whose transfer breaks off each time; counts the tries.
struct Broken {
    tries: AtomicUsize,
    is_resumable: bool,
    /// Text that comes before the transfer breaks off.
    text: &'static str,
}

#[async_trait]
impl Export for Broken {
    fn source(&self) -> String {
        "broken".to_owned()
    }

    fn parts(&self) -> Vec<Part> {
        vec![Part {
            name: "part.ndjson".to_owned(),
            from: "part".to_owned(),
            until: String::new(),
            bytes: None,
            version: self.is_resumable.then(|| "1".to_owned()),
        }]
    }

    fn parallel(&self) -> usize {
        1
    }

    fn is_resumable(&self) -> bool {
        self.is_resumable
    }

    async fn fetch(
        &self,
        _transfer: &Transfer,
        _part: &Part,
        _begun_bytes: u64,
        into: &mut (dyn Write + Send),
    ) -> Result<(), FetchError> {
        self.tries.fetch_add(1, Ordering::Relaxed);
        into.write_all(self.text.as_bytes())?;
        Err(FetchError::retryable("The transfer broke off."))
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_breaks_off_each_time_is_tried_twelve_times() {
    for (is_resumable, text) in [(false, ""), (false, "{}\n"), (true, "")] {
        let dir = TempDir::new().unwrap();
        let staging = Staging::open(dir.path()).unwrap();
        let export = Broken {
            tries: AtomicUsize::new(0),
            is_resumable,
            text,
        };
        let transfer = Transfer::new(client().unwrap());
        let outcome = fetch(&export, &staging, &transfer, &StageStats::default()).await;
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains("Run the same command again"), "{error}");
        let tries = export.tries.load(Ordering::Relaxed);
        assert_eq!(tries, 12, "{is_resumable} {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_is_waited_for_ten_minutes_and_its_next_piece_for_two() {
    let transfer = Transfer::new(client().unwrap());
    let begun_at = Instant::now();
    transfer.piece(pending::<()>()).await.unwrap_err();
    assert_eq!(begun_at.elapsed().as_secs(), 120);
    transfer.head(pending::<()>()).await.unwrap_err();
    assert_eq!(begun_at.elapsed().as_secs(), 720);
}
