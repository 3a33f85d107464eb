//! Section 2: encodings, and how they are detected.

use crate::test_env::{TestEnv, batch};
use base64::Engine;
use std::io::Write;

pub fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.gzip_compress_bound(plain.len())];
    let written = compressor.gzip_compress(plain, &mut out).unwrap();
    out.truncate(written);
    out
}

pub fn deflate(plain: &[u8], zlib: bool) -> Vec<u8> {
    let mut compressor = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
    let mut out = vec![0; compressor.zlib_compress_bound(plain.len())];
    let written = match zlib {
        true => compressor.zlib_compress(plain, &mut out).unwrap(),
        false => compressor.deflate_compress(plain, &mut out).unwrap(),
    };
    out.truncate(written);
    out
}

fn brotli(plain: &[u8]) -> Vec<u8> {
    let mut writer = brotli::CompressorWriter::new(Vec::new(), 4096, 5, 22);
    writer.write_all(plain).unwrap();
    writer.into_inner()
}

fn base64(plain: &[u8]) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD
        .encode(plain)
        .into_bytes()
}

pub fn lz64(plain: &[u8]) -> Vec<u8> {
    lz_str::compress_to_base64(std::str::from_utf8(plain).unwrap()).into_bytes()
}

const FORM: &str = "application/x-www-form-urlencoded; charset=UTF-8";

fn form(data: &[u8], rest: &str) -> Vec<u8> {
    let escaped: String = form_urlencoded::byte_serialize(data).collect();
    format!("data={escaped}{rest}").into_bytes()
}

/// Form of clients that escape only what they must.
fn careless_form(data: &[u8]) -> Vec<u8> {
    [b"data=", data].concat()
}

type Case<'a> = (&'a str, &'a str, &'a str, &'a str, Vec<u8>);

fn cases(json: &[u8]) -> Vec<Case<'static>> {
    let mut cases = compressed(json);
    cases.extend(as_text(json));
    cases
}

fn compressed(json: &[u8]) -> Vec<Case<'static>> {
    let text = "text/plain";
    let members = [gzip(&json[..10]), gzip(&json[10..])].concat();
    vec![
        ("plain", "", "", "application/json", json.to_vec()),
        (
            "identity",
            "identity",
            "",
            "application/json",
            json.to_vec(),
        ),
        ("gzip, named", "gzip", "", "application/json", gzip(json)),
        ("gzip, named in the query", "", "gzip-js", text, gzip(json)),
        ("gzip, named twice", "gzip", "gzip", text, gzip(json)),
        ("gzip, said nowhere", "", "", text, gzip(json)),
        ("gzip, said nowhere, as a form", "", "", FORM, gzip(json)),
        ("gzip, several members", "gzip", "", text, members),
        (
            "deflate with zlib's header",
            "deflate",
            "",
            text,
            deflate(json, true),
        ),
        ("deflate, said nowhere", "", "", text, deflate(json, true)),
        ("deflate, bare", "deflate", "", text, deflate(json, false)),
        ("brotli", "br", "", text, brotli(json)),
        ("zstd", "zstd", "", text, zstd::encode_all(json, 3).unwrap()),
        (
            "zstd, said nowhere",
            "",
            "",
            text,
            zstd::encode_all(json, 3).unwrap(),
        ),
    ]
}

fn as_text(json: &[u8]) -> Vec<Case<'static>> {
    let text = "text/plain";
    vec![
        ("base64", "", "base64", text, base64(json)),
        ("base64 of gzip", "", "base64", text, base64(&gzip(json))),
        (
            "base64 promised, JSON sent",
            "",
            "base64",
            text,
            json.to_vec(),
        ),
        ("lz64", "", "lz64", text, lz64(json)),
        (
            "form with base64",
            "",
            "base64",
            FORM,
            form(&base64(json), ""),
        ),
        (
            "form with base64, not said",
            "",
            "",
            FORM,
            form(&base64(json), "&ip=1"),
        ),
        (
            "form with + for space",
            "",
            "",
            FORM,
            careless_form(&base64(json)),
        ),
        ("form with JSON", "", "", FORM, form(json, "")),
        (
            "form with lz64",
            "",
            "",
            FORM,
            form(&lz64(json), "&compression=lz64"),
        ),
        (
            "form with lz64, careless",
            "",
            "lz64",
            FORM,
            careless_form(&lz64(json)),
        ),
        (
            "form without the type",
            "",
            "base64",
            text,
            form(&base64(json), ""),
        ),
        (
            "form in gzip",
            "gzip",
            "",
            FORM,
            gzip(&form(&base64(json), "")),
        ),
        ("JSON as curl -d sends it", "", "", FORM, json.to_vec()),
    ]
}

#[test]
fn every_encoding_is_decoded_however_it_is_announced() {
    let env = TestEnv::start();
    let mut client = env.client();
    // Characters that make base64 with + and /, in every length modulo 3.
    let names = ["ÿþ>>??~~", "ÿþ>>??~~.", "ÿþ>>??~~.."];
    let mut sent = 0;
    for name in names {
        for (what, encoding, hint, content_type, body) in cases(batch(&[name]).as_bytes()) {
            let target = match hint {
                "" => "/e/".to_owned(),
                hint => format!("/e/?compression={hint}"),
            };
            let mut headers = vec![("Content-Type", content_type)];
            if !encoding.is_empty() {
                headers.push(("Content-Encoding", encoding));
            }
            let answer = client.post(&target, &headers, &body);
            let text = String::from_utf8_lossy(&answer.body);
            assert_eq!(answer.status, 200, "{what}: {text}");
            sent += 1;
        }
    }
    let rows = env.rows();
    assert_eq!(rows.events.len(), sent);
    assert!(rows.names().iter().all(|name| names.contains(name)));
}

/// Refused request: headers, query, body, status, code.
type Refusal<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a [u8], u16, &'a str);

/// Head of a gzip body and the beginning of its data.
const HALF_A_GZIP: &[u8] = b"\x1f\x8b\x08\0\0\0\0\0\0\x03\xab\x56\x4a\x2c\xc8\x8c\xcf\x4e\xad\x54";

const REFUSALS: [Refusal<'_>; 14] = [
    (
        &[("Content-Encoding", "gzip")],
        "",
        b"[{}]",
        400,
        "invalid_encoding",
    ),
    (
        &[("Content-Encoding", "gzip")],
        "",
        HALF_A_GZIP,
        400,
        "invalid_encoding",
    ),
    (
        &[("Content-Encoding", "br")],
        "",
        b"\xff\xff\xff",
        400,
        "invalid_encoding",
    ),
    (
        &[("Content-Encoding", "zstd")],
        "",
        b"[{}]",
        400,
        "invalid_encoding",
    ),
    (
        &[("Content-Encoding", "deflate")],
        "",
        b"\xff\xff",
        400,
        "invalid_encoding",
    ),
    (&[], "?compression=base64", b"****", 400, "invalid_encoding"),
    (&[], "?compression=lz64", b"****", 400, "invalid_encoding"),
    (
        &[("Content-Encoding", "gzip, gzip")],
        "",
        b"[{}]",
        415,
        "unsupported_media_type",
    ),
    (
        &[("Content-Encoding", "gzip"), ("Content-Encoding", "br")],
        "",
        b"[{}]",
        415,
        "unsupported_media_type",
    ),
    (
        &[("Content-Encoding", "compress")],
        "",
        b"[{}]",
        415,
        "unsupported_media_type",
    ),
    (
        &[],
        "?compression=rar",
        b"[{}]",
        415,
        "unsupported_media_type",
    ),
    (&[("Content-Type", FORM)], "", b"x=1", 400, "invalid_body"),
    (&[("Content-Type", FORM)], "", b"", 400, "empty_body"),
    (&[], "", b" \n", 400, "empty_body"),
];

#[test]
fn a_gzip_body_that_is_sent_wrongly_is_told_how() {
    let env = TestEnv::start();
    let mut client = env.client();
    let json = batch(&["e"]).into_bytes();
    let sent = gzip(&json);
    let table = [
        (gzip(&sent), "compressed twice"),
        (
            [&sent[..], b"--"].concat(),
            "follow the end of the gzip data",
        ),
        (
            [&sent[..], &sent].concat(),
            "members of a gzip body and frames of a zstd body are read as one",
        ),
        (sent[..20].to_vec(), "cut short"),
    ];
    for (body, words) in table {
        for headers in [&[("Content-Encoding", "gzip")][..], &[]] {
            let answer = client.post("/batch/", headers, &body);
            assert_eq!(answer.status, 400, "{words} {headers:?}");
            let detail = answer.json()["detail"].to_string();
            assert!(detail.contains(words), "{headers:?}: {detail}");
        }
    }
}

#[test]
fn a_body_that_cannot_be_decoded_is_refused_and_the_connection_goes_on() {
    let env = TestEnv::start();
    let mut client = env.client();
    let json = batch(&["e"]).into_bytes();
    for (headers, query, body, status, code) in REFUSALS {
        let answer = client.post(&format!("/batch/{query}"), headers, body);
        let got = (answer.status, answer.code());
        assert_eq!(got, (status, code.to_owned()), "{headers:?} {query}");
        assert_eq!(
            answer.json()["type"],
            "invalid_request",
            "{headers:?} {query}"
        );
    }
    assert_eq!(client.post("/batch/", &[], &json).status, 200);
    assert_eq!(env.rows().events.len(), 1);
}
