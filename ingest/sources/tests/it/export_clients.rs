//! Export APIs on loopback, with injected faults.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use millrace_sources::testing::{FakeApi, Fault, Service};
use millrace_sources::{
    AmplitudeExport, AmplitudeSettings, Export, ExportSettingsError, FetchError,
    MixpanelCredentials, MixpanelExport, MixpanelSettings, Part, Transfer,
};
use std::io::{Cursor, Read as _};
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

const EVENTS: u64 = 200;

fn mixpanel_settings(url: &str) -> MixpanelSettings {
    MixpanelSettings {
        url: url.to_owned(),
        credentials: MixpanelCredentials::ProjectSecret("canary-secret".to_owned()),
        from: "2024-02-27".to_owned(),
        until: "2024-03-02".to_owned(),
        days_per_part: 1,
        rate_limit: MixpanelExport::RATE_LIMIT,
    }
}

fn amplitude_settings(url: &str) -> AmplitudeSettings {
    AmplitudeSettings {
        url: url.to_owned(),
        api_key: "key".to_owned(),
        secret_key: "canary-secret".to_owned(),
        from: "2024-02-29".to_owned(),
        until: "2024-03-01".to_owned(),
        hours_per_part: 1,
        rate_limit: AmplitudeExport::RATE_LIMIT,
    }
}

fn export(service: Service, url: &str) -> Box<dyn Export> {
    match service {
        Service::Mixpanel => Box::new(MixpanelExport::new(mixpanel_settings(url)).unwrap()),
        Service::Amplitude => Box::new(AmplitudeExport::new(amplitude_settings(url)).unwrap()),
    }
}

/// HTTP client without trusted certificates, as nothing here is encrypted.
fn http() -> reqwest::Client {
    let tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(RootCertStore::empty())
        .with_no_client_auth();
    let client = reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .no_proxy();
    client.build().unwrap()
}

async fn fetch(export: &dyn Export, part: &Part) -> Result<Vec<u8>, FetchError> {
    let mut bytes = Vec::new();
    let transfer = Transfer::new(http());
    let fetched = export.fetch(&transfer, part, 0, &mut bytes).await;
    fetched.map(|()| bytes)
}

/// Decompresses a part's lines.
fn lines(service: Service, bytes: &[u8]) -> Vec<u8> {
    let gunzip = |bytes: &[u8]| {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes)
            .read_to_end(&mut text)
            .unwrap();
        text
    };
    match service {
        Service::Mixpanel => gunzip(bytes),
        Service::Amplitude => {
            let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
            let mut text = Vec::new();
            for index in 0..archive.len() {
                let mut entry = Vec::new();
                archive
                    .by_index(index)
                    .unwrap()
                    .read_to_end(&mut entry)
                    .unwrap();
                text.extend(gunzip(&entry));
            }
            text
        }
    }
}

fn names(export: &dyn Export) -> Vec<String> {
    export.parts().into_iter().map(|part| part.name).collect()
}

#[test]
fn parts_are_days_and_hours_without_gaps() {
    let days = export(Service::Mixpanel, MixpanelExport::URL_EU);
    let expected = [
        "2024-02-27",
        "2024-02-28",
        "2024-02-29",
        "2024-03-01",
        "2024-03-02",
    ];
    assert_eq!(
        names(&*days),
        expected.map(|day| format!("mixpanel-{day}.ndjson.gz"))
    );
    let settings = MixpanelSettings {
        days_per_part: 3,
        ..mixpanel_settings(MixpanelExport::URL_IN)
    };
    let more = MixpanelExport::new(settings).unwrap();
    let expected = [
        "mixpanel-2024-02-27--2024-02-29.ndjson.gz",
        "mixpanel-2024-03-01--2024-03-02.ndjson.gz",
    ];
    assert_eq!(names(&more), expected);
    assert_eq!(more.parts()[1].until, "2024-03-02");
    let hours = export(Service::Amplitude, AmplitudeExport::URL_EU);
    let parts = hours.parts();
    assert_eq!(parts.len(), 48);
    assert_eq!(parts[47].name, "amplitude-2024-03-01T23.zip");
    assert_eq!(
        (&*parts[24].from, &*parts[24].until),
        ("20240301T00", "20240301T00")
    );
    let settings = AmplitudeSettings {
        hours_per_part: 24,
        ..amplitude_settings(AmplitudeExport::URL_US)
    };
    let more = AmplitudeExport::new(settings).unwrap().parts();
    assert_eq!(
        (more.len(), &*more[1].from, &*more[1].until),
        (2, "20240301T00", "20240301T23")
    );
}

#[test]
fn invalid_settings_are_refused() {
    let mixpanel = |change: fn(&mut MixpanelSettings)| {
        let mut settings = mixpanel_settings(MixpanelExport::URL_US);
        change(&mut settings);
        assert!(!format!("{settings:?}").contains("canary"));
        MixpanelExport::new(settings).map(drop).unwrap_err()
    };
    assert_eq!(
        mixpanel(|it| it.from = "2024-02-30".into()),
        ExportSettingsError::Day("2024-02-30".into())
    );
    assert!(matches!(
        mixpanel(|it| it.until = "2024-01-01".into()),
        ExportSettingsError::Order { .. }
    ));
    assert_eq!(
        mixpanel(|it| it.days_per_part = 0),
        ExportSettingsError::EmptyParts
    );
    for url in ["", "data.mixpanel.com", "file:///etc", "ftp://a"] {
        let mut settings = amplitude_settings(url);
        assert!(
            matches!(
                AmplitudeExport::new(settings.clone()),
                Err(ExportSettingsError::Url(_))
            ),
            "{url}"
        );
        settings.hours_per_part = 0;
        assert!(!format!("{settings:?}").contains("canary"));
    }
}

#[tokio::test]
async fn a_part_has_the_lines_of_the_service() {
    for service in [Service::Mixpanel, Service::Amplitude] {
        let fake = FakeApi::start(service, EVENTS);
        let export = export(service, &fake.url);
        let part = &export.parts()[2];
        let bytes = fetch(&*export, part).await.unwrap();
        let text = lines(service, &bytes);
        assert_eq!(
            text.iter().filter(|byte| **byte == b'\n').count() as u64,
            EVENTS
        );
        assert_eq!(text, fake.lines(&part.from));
    }
}

#[tokio::test]
async fn requests_are_as_the_service_documents() {
    let fake = FakeApi::start(Service::Mixpanel, 1);
    let basic = |credentials: &str| format!("Basic {}", BASE64_STANDARD.encode(credentials));
    let settings = MixpanelSettings {
        credentials: MixpanelCredentials::ServiceAccount {
            username: "robot".to_owned(),
            secret: "s".to_owned(),
            project_id: 42,
        },
        ..mixpanel_settings(&fake.url)
    };
    for export in [
        MixpanelExport::new(settings).unwrap(),
        MixpanelExport::new(mixpanel_settings(&fake.url)).unwrap(),
    ] {
        fetch(&export, &export.parts()[0]).await.unwrap();
    }
    let path = "/api/2.0/export?from_date=2024-02-27&to_date=2024-02-27&time_in_ms=true";
    let expected = [
        format!("{path}&project_id=42 {}", basic("robot:s")),
        format!("{path} {}", basic("canary-secret:")),
    ];
    assert_eq!(fake.requests(), expected);
    let fake = FakeApi::start(Service::Amplitude, 1);
    // Below a proxy's path.
    let export = export(Service::Amplitude, &format!("{}/proxy/", fake.url));
    fetch(&*export, &export.parts()[13]).await.unwrap();
    let expected = format!(
        "/proxy/api/2/export?start=20240229T13&end=20240229T13 {}",
        basic("key:canary-secret")
    );
    assert_eq!(fake.requests(), [expected]);
}

#[tokio::test]
async fn a_part_without_events_is_empty() {
    for service in [Service::Mixpanel, Service::Amplitude] {
        let fake = FakeApi::start(service, EVENTS);
        let export = export(service, &fake.url);
        let part = &export.parts()[0];
        fake.empty(&part.from);
        assert!(fetch(&*export, part).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_small_uncompressed_response_is_compressed() {
    let fake = FakeApi::start(Service::Mixpanel, 2);
    fake.expect(&[Fault::Uncompressed]);
    let export = export(Service::Mixpanel, &fake.url);
    let part = &export.parts()[0];
    let bytes = fetch(&*export, part).await.unwrap();
    assert_eq!(lines(Service::Mixpanel, &bytes), fake.lines(&part.from));
}

#[tokio::test]
async fn a_retryable_failure_is_retried_and_then_complete() {
    let mut faults = vec![
        (Fault::Throttled(Some(7)), Some(7)),
        (Fault::Throttled(None), None),
        (Fault::Status(500), None),
        (Fault::Status(503), None),
        (Fault::Status(408), None),
    ];
    for share in [0, 1, 50, 99] {
        faults.push((Fault::Cut(share), None));
        // A response without length that ends at 0 % is a response without events.
        if share > 0 {
            faults.push((Fault::CutWithoutLength(share), None));
        }
    }
    for service in [Service::Mixpanel, Service::Amplitude] {
        let fake = FakeApi::start(service, EVENTS);
        for (fault, seconds) in &faults {
            // A new export, so that the rate limit is never reached.
            let export = export(service, &fake.url);
            let part = &export.parts()[1];
            fake.expect(&[*fault]);
            let Err(FetchError::Retryable { after, message }) = fetch(&*export, part).await else {
                panic!("{fault:?} of {service:?} is taken for complete");
            };
            assert_eq!(after, seconds.map(Duration::from_secs), "{fault:?}");
            assert!(!message.contains("canary"), "{message}");
            let bytes = fetch(&*export, part).await.unwrap();
            assert_eq!(lines(service, &bytes), fake.lines(&part.from));
        }
    }
}

#[tokio::test]
async fn an_export_that_the_service_aborts_is_retryable() {
    let fake = FakeApi::start(Service::Mixpanel, EVENTS);
    fake.expect(&[Fault::GivesUp]);
    let export = export(Service::Mixpanel, &fake.url);
    let Err(FetchError::Retryable { message, .. }) = fetch(&*export, &export.parts()[0]).await
    else {
        panic!("half a day is taken for a day");
    };
    assert!(message.contains("terminated early"), "{message}");
}

#[tokio::test]
async fn a_permanent_failure_tells_the_user_what_to_do() {
    let table = [
        (Service::Mixpanel, 401, "credentials"),
        (Service::Mixpanel, 400, "days"),
        (Service::Mixpanel, 404, "project"),
        (Service::Amplitude, 403, "credentials"),
        (Service::Amplitude, 400, "fewer hours"),
    ];
    for (service, status, expected) in table {
        let fake = FakeApi::start(service, EVENTS);
        fake.expect(&[Fault::Status(status)]);
        let export = export(service, &fake.url);
        let Err(FetchError::Permanent { message }) = fetch(&*export, &export.parts()[0]).await
        else {
            panic!("{status} is not permanent");
        };
        assert!(
            message.contains(expected) && message.contains("Something is wrong"),
            "{message}"
        );
        assert!(!message.contains("canary"), "{message}");
    }
}

#[tokio::test]
async fn an_unreachable_service_is_retryable() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let export = export(Service::Mixpanel, &format!("http://{gone}"));
    let refused = fetch(&*export, &export.parts()[0]).await;
    assert!(matches!(refused, Err(FetchError::Retryable { .. })));
}
