//! Load over TLS, with certificates made for the test.

use crate::server::Server;
use millrace_load::baseline::Work;
use millrace_load::tls::{Trust, acceptor};
use millrace_load::{Compression, Plan, run};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::path::PathBuf;
use tempfile::TempDir;

/// A certificate for `name` with its key, in files.
struct Certificate {
    _dir: TempDir,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificate {
    fn new(name: &str) -> Self {
        Self::of(&CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// Self-signed certificate with CA:TRUE, as `openssl req -x509` makes it for a server.
    fn of_an_authority(name: &str) -> Self {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self::of(&params)
    }

    fn of(params: &CertificateParams) -> Self {
        let signing_key = KeyPair::generate().unwrap();
        let cert = params.self_signed(&signing_key).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let certificate = dir.path().join("certificate.pem");
        let key = dir.path().join("key.pem");
        std::fs::write(&certificate, cert.pem()).unwrap();
        std::fs::write(&key, signing_key.serialize_pem()).unwrap();
        Self {
            _dir: dir,
            certificate,
            key,
        }
    }

    fn server(&self, work: Work) -> Server {
        Server::start_tls(work, &self.certificate, &self.key)
    }

    fn trust(&self) -> Trust {
        Trust {
            ca: Some(self.certificate.clone()),
            insecure: false,
        }
    }
}

const ANYONE: Trust = Trust {
    ca: None,
    insecure: true,
};

#[test]
fn every_request_arrives_through_tls() {
    let certificate = Certificate::new("127.0.0.1");
    for (compression, event_bytes) in [
        (Compression::None, 998),
        (Compression::Gzip, 998),
        // More than rustls buffers at once.
        (Compression::None, 200_000),
    ] {
        let server = certificate.server(Work::Drain);
        let mut plan = Plan::new(&server.url, "key").with_requests(50);
        plan.trust = certificate.trust();
        plan.threads = 2;
        plan.batch_events = 10;
        plan.event_bytes = event_bytes;
        plan.compression = compression;
        let summary = run(&plan).unwrap();
        assert_eq!(summary.run.acknowledged_requests, 50, "{summary}");
        assert_eq!(server.requests(), 50);
        assert!(summary.to_string().contains(", TLS"), "{summary}");
    }
}

#[test]
fn a_certificate_is_trusted_or_the_run_says_why_not() {
    let ours = Certificate::new("127.0.0.1");
    let elsewhere = Certificate::new("elsewhere.example");
    let authority = Certificate::of_an_authority("127.0.0.1");
    let table = [
        (&ours, ours.trust(), None),
        (&ours, ANYONE, None),
        (&ours, elsewhere.trust(), Some("--insecure takes any")),
        (&elsewhere, elsewhere.trust(), Some("--insecure takes any")),
        (&elsewhere, ANYONE, None),
        (
            &authority,
            authority.trust(),
            Some("needs one with CA:FALSE"),
        ),
        (&authority, ANYONE, None),
    ];
    for (certificate, trust, refusal) in table {
        let server = certificate.server(Work::Drain);
        let mut plan = Plan::new(&server.url, "key").with_requests(3);
        plan.trust = trust.clone();
        plan.connections = 1;
        match (run(&plan), refusal) {
            (Ok(summary), None) => assert_eq!(summary.run.acknowledged_requests, 3, "{summary}"),
            (Err(error), Some(says)) => {
                let error = format!("{error:#}");
                assert!(error.contains(says), "{error}");
            }
            (outcome, _) => panic!("{trust:?}: {outcome:?}"),
        }
    }
}

#[test]
fn tls_and_plain_http_do_not_connect() {
    let plain = Server::start(Work::Drain);
    let mut plan = Plan::new(&plain.url.replace("http:", "https:"), "key").with_requests(1);
    plan.trust = ANYONE;
    let error = format!("{:#}", run(&plan).unwrap_err());
    assert!(error.contains("does it speak TLS?"), "{error}");

    let tls = Certificate::new("127.0.0.1").server(Work::Drain);
    let plan = Plan::new(&tls.url.replace("https:", "http:"), "key").with_requests(1);
    let summary = run(&plan).unwrap();
    assert_eq!(summary.run.acknowledged_requests, 0, "{summary}");
}

#[test]
fn files_that_are_no_certificate_or_key_are_named() {
    let right = Certificate::new("127.0.0.1");
    let other = Certificate::new("127.0.0.1");
    let missing = PathBuf::from("/nowhere/certificate.pem");
    for (certificate, key, says) in [
        (&missing, &right.key, "/nowhere"),
        (&right.key, &right.key, "has no PEM certificate"),
        (
            &right.certificate,
            &right.certificate,
            "has no PEM private key",
        ),
        (&right.certificate, &other.key, "certificate.pem and"),
    ] {
        let error = format!("{:#}", acceptor(certificate, key).err().unwrap());
        assert!(error.contains(says), "{error}");
    }
}
