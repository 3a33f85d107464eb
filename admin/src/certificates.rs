//! Validation of certificates as people paste them: PEM, or only the Base64 between PEM's
//! header and footer, as in the metadata of identity providers.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use tokio_rustls::rustls::pki_types::pem::{Error, PemObject as _, SectionKind};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;

/// Beginning of a block of PEM.
const PEM_BEGIN: &str = "-----BEGIN";

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns true if the text is an X.509 certificate, or several in PEM. Its content, such as
/// until when it is valid, is not checked.
#[must_use]
pub fn is_certificate(text: &str) -> bool {
    if !text.contains(PEM_BEGIN) {
        let digits: String = text.split_whitespace().collect();
        return BASE64.decode(digits).is_ok_and(|der| is_der(&der));
    }
    // Blocks with labels that the library does not know are skipped, so they are counted.
    let blocks: Result<Vec<Block>, Error> = Block::pem_slice_iter(text.as_bytes()).collect();
    blocks.is_ok_and(|blocks| {
        let certificates = blocks
            .iter()
            .filter(|(kind, der)| *kind == SectionKind::Certificate && is_der(der));
        certificates.count() == text.matches(PEM_BEGIN).count()
    })
}

type Block = (SectionKind, Vec<u8>);

/// Returns true for one certificate with no bytes after it. Rules for authorities are not checked:
/// people's own certificates break them.
fn is_der(bytes: &[u8]) -> bool {
    CertificateInner::<Raw>::from_der(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_certificate;
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    #[test]
    fn pem_and_bare_base64_are_certificates_and_other_texts_are_not() {
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(["idp.example.com".to_owned()]).unwrap();
        let pem = cert.pem();
        let digits: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let key = signing_key.serialize_pem();
        let half = &digits[..digits.len() / 2];
        let table = [
            ("PEM", pem.clone(), true),
            ("PEM with CRLF", pem.replace('\n', "\r\n"), true),
            (
                "PEM within other text",
                format!("Subject: x\n{pem}\n"),
                true,
            ),
            ("two in PEM", format!("{pem}{pem}"), true),
            ("digits alone", digits.clone(), true),
            (
                "digits in lines",
                format!("\n  {half}\n  {}\n", &digits[half.len()..]),
                true,
            ),
            ("no padding", digits.trim_end_matches('=').to_owned(), true),
            ("nothing", String::new(), false),
            ("a word", "certificate".to_owned(), false),
            ("half of the digits", half.to_owned(), false),
            (
                "more behind it",
                format!("{}{digits}", digits.trim_end_matches('=')),
                false,
            ),
            ("a private key", key.clone(), false),
            ("a certificate and its key", format!("{pem}{key}"), false),
            (
                "a certificate and another label",
                format!("{pem}{}", pem.replace("CERTIFICATE", "TEXT")),
                false,
            ),
            ("no end", pem.replace("-----END", "-----"), false),
            ("another label", pem.replace("CERTIFICATE", "TEXT"), false),
            (
                "armour around nothing",
                "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".to_owned(),
                false,
            ),
        ];
        for (what, text, expected) in table {
            assert_eq!(is_certificate(&text), expected, "{what}");
        }
    }
}
