//! Metrics of the API: requests by operation and status, and the time until their responses begin.
//!
//! Labels are ids of the document's operations and statuses, so no client can add to them. With 12
//! series for an operation that is called and one for each of its statuses, a page has less than
//! 3 000 lines of them.

use crate::openapi::operation_id;
use crate::router::RouteMatch;
use http::{Method, StatusCode};
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};
use std::time::Duration;

/// Requests that were answered.
const REQUESTS: &str = "millrace_admin_requests_total";
/// Time from the head of a request to that of its response, in seconds.
const SECONDS: &str = "millrace_admin_request_seconds";
/// Operation of requests with an unknown path, or a method that their path has not.
const NO_OPERATION: &str = "none";

/// Describes the metrics; called once, when the server starts.
pub(crate) fn describe() {
    describe_counter!(
        REQUESTS,
        Unit::Count,
        "Requests that the organization API answered, by operation and status"
    );
    describe_histogram!(
        SECONDS,
        Unit::Seconds,
        "Time from the head of a request to that of its response, by operation"
    );
}

/// Label of a request's operation.
pub(crate) fn operation_name(found: Option<&RouteMatch>, method: &Method) -> String {
    let method = match *method {
        Method::HEAD => &Method::GET,
        _ => method,
    };
    let operation = found.and_then(|found| found.item.operation(method));
    operation.map_or_else(
        || NO_OPERATION.to_owned(),
        |operation| operation_id(operation),
    )
}

/// Counts a response, and the time until its head was there. A streamed body comes later.
pub(crate) fn answered(operation: String, status: StatusCode, time: Duration) {
    histogram!(SECONDS, "operation" => operation.clone()).record(time);
    counter!(REQUESTS, "operation" => operation, "status" => status.as_str().to_owned())
        .increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::error::ApiError;
    use crate::operation::Operation;
    use crate::router::Router;

    async fn ok(_: Context) -> Result<String, ApiError> {
        Ok(String::new())
    }

    #[test]
    fn a_request_is_named_by_its_operation_and_never_by_its_path() {
        let path = "/api/organizations/{organization_id}/";
        let router = Router::new(vec![Operation::get(path, ok).about("Show").open()]).unwrap();
        for (method, asked, name) in [
            (
                Method::GET,
                "/api/organizations/1/",
                "organizations_retrieve",
            ),
            (
                Method::HEAD,
                "/api/organizations/2",
                "organizations_retrieve",
            ),
            (Method::POST, "/api/organizations/1/", "none"),
            (Method::GET, "/api/secret-token/", "none"),
        ] {
            let found = router.find(asked);
            assert_eq!(
                operation_name(found.as_ref(), &method),
                name,
                "{method} {asked}"
            );
        }
    }
}
