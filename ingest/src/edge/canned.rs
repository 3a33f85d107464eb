//! Answers that are written without hyper.

/// A whole answer with an error body.
pub fn canned(status: &str, code: &str, detail: &str, headers: &str) -> Vec<u8> {
    let kind = if status.starts_with('5') {
        "server_error"
    } else {
        "invalid_request"
    };
    let body = format!(r#"{{"type":"{kind}","code":"{code}","detail":"{detail}","attr":null}}"#);
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close\r\n\
         {headers}content-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canned_answer_is_whole() {
        let text = String::from_utf8(canned(
            "503 Service Unavailable",
            "c",
            "d",
            "retry-after: 1\r\n",
        ))
        .unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains(&format!("content-length: {}", body.len())),
            "{head}"
        );
        assert!(head.contains("\r\nretry-after: 1\r\n"), "{head}");
        assert_eq!(
            body,
            r#"{"type":"server_error","code":"c","detail":"d","attr":null}"#
        );
    }
}
