//! Fetches of exports from fakes of their APIs: complete, each part once, whatever fails.

use millrace_import::check::{Check, run as check};
use millrace_import::fetch::{FetchSummary, run as fetch};
use millrace_import::files::find;
use millrace_import::plan::Plan;
use millrace_import::send::client;
use millrace_import::staging::Staging;
use millrace_import::stats::StageStats;
use millrace_sources::testing::{FakeApi, Fault, Service};
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, RateLimit, Transfer,
};
use tempfile::TempDir;

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
