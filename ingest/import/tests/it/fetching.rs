//! Exports fetched from fakes of their APIs: whole, each part once, whatever goes wrong on the way.

use millrace_import::check::{Check, run as check};
use millrace_import::fetch::{Fetched, run as fetch};
use millrace_import::files::find;
use millrace_import::meter::Meter;
use millrace_import::plan::Plan;
use millrace_import::send::client;
use millrace_import::staging::Staging;
use millrace_sources::testing::{FakeApi, Mishap, Service};
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, MixpanelCredentials, MixpanelExport,
    MixpanelSettings, Pace, Transfer,
};
use tempfile::TempDir;

const EVENTS_PER_PART: u64 = 20;
const PACE: Pace = Pace {
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
        pace: PACE,
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
        pace: PACE,
    })
    .unwrap()
}

fn fetched(export: &dyn Export, staging: &Staging) -> anyhow::Result<Fetched> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let transfer = Transfer::new(client().unwrap());
    runtime.block_on(fetch(export, staging, &transfer, &Meter::default()))
}

fn events_in(staging: &Staging) -> u64 {
    let stage = Check {
        plan: Plan::default(),
        files: find(&[staging.data().to_string_lossy().into_owned()]).unwrap(),
        files_parallel: 1,
        records_max: None,
        samples: 0,
    };
    let found = check(&stage, &Meter::default());
    assert_eq!(found.broken, []);
    found.records
}

#[test]
fn an_export_is_fetched_whole_through_throttling() {
    let table: [(Service, u64); 2] = [(Service::Mixpanel, 5), (Service::Amplitude, 24)];
    for (service, parts) in table {
        let dir = TempDir::new().unwrap();
        let staging = Staging::open(dir.path()).unwrap();
        let api = FakeApi::start(service, EVENTS_PER_PART);
        api.expect(&[
            Mishap::Throttled(Some(0)),
            Mishap::None,
            Mishap::Status(503),
        ]);
        let export: Box<dyn Export> = match service {
            Service::Mixpanel => Box::new(mixpanel(&api)),
            Service::Amplitude => Box::new(amplitude(&api)),
        };
        let done = fetched(&*export, &staging).unwrap();
        assert_eq!((done.new as u64, done.known), (parts, 0));
        assert_eq!(events_in(&staging), parts * EVENTS_PER_PART);
        // What is there is not asked for again; what was lost is.
        let asked = api.requests().len();
        let lost = std::fs::read_dir(staging.data()).unwrap().next().unwrap();
        std::fs::remove_file(lost.unwrap().path()).unwrap();
        let again = fetched(&*export, &staging).unwrap();
        assert_eq!((again.new, again.known as u64), (1, parts - 1));
        assert_eq!(api.requests().len(), asked + 1);
        assert_eq!(events_in(&staging), parts * EVENTS_PER_PART);
    }
}

#[test]
fn wrong_credentials_end_it_and_leave_what_was_fetched() {
    let dir = TempDir::new().unwrap();
    let staging = Staging::open(dir.path()).unwrap();
    let api = FakeApi::start(Service::Mixpanel, EVENTS_PER_PART);
    api.expect(&[Mishap::None, Mishap::Status(401)]);
    let error = fetched(&mixpanel(&api), &staging).unwrap_err();
    assert!(
        format!("{error:#}").contains("mixpanel-2024-05-0"),
        "{error:#}"
    );
    let done = fetched(&mixpanel(&api), &staging).unwrap();
    assert_eq!(done.new + done.known, 5);
    assert_eq!(events_in(&staging), 5 * EVENTS_PER_PART);
}
