//! Validation of certificates as people paste them: PEM, or only the Base64 between PEM's
//! header and footer, as in the metadata of identity providers.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use x509_parser::parse_x509_certificate;
use x509_parser::pem::Pem;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns true if the text is an X.509 certificate, or several in PEM. Its content, such as
/// until when it is valid, is not checked.
#[must_use]
pub fn is_certificate(text: &str) -> bool {
    if !text.contains("-----BEGIN") {
        let digits: String = text.split_whitespace().collect();
        return BASE64.decode(digits).is_ok_and(|der| is_der(&der));
    }
    let mut blocks = Pem::iter_from_buffer(text.as_bytes()).peekable();
    let certificate = |block: Result<Pem, _>| {
        block.is_ok_and(|block| block.label == "CERTIFICATE" && is_der(&block.contents))
    };
    blocks.peek().is_some() && blocks.all(certificate)
}

/// Returns true for one certificate with no bytes after it.
fn is_der(bytes: &[u8]) -> bool {
    parse_x509_certificate(bytes).is_ok_and(|(rest, _)| rest.is_empty())
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
