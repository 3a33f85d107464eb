//! Signs requests again whose path has changed since the library signed them.

use http::header::AUTHORIZATION;
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::azure::{AzureAuthorizer, AzureCredentialProvider};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest};

/// Header that tells S3 the hash of the body, or that the body is unsigned.
const BODY_HASH: &str = "x-amz-content-sha256";

/// Credentials that the library signs with.
#[derive(Debug)]
pub(super) enum Signing {
    S3(AwsCredentialProvider),
    Azure(AzureCredentialProvider),
    /// Google's tokens do not depend on the path.
    Google,
}

impl Signing {
    /// Signs a request again, if its path was signed.
    pub(super) async fn sign(&self, request: &mut HttpRequest) -> Result<(), HttpError> {
        let old = request.headers().get(AUTHORIZATION);
        let Some(old) = old.and_then(|old| old.to_str().ok()).map(str::to_owned) else {
            return Ok(());
        };
        match self {
            Self::S3(credentials) => {
                // `… Credential=<id>/<day>/<region>/<service>/aws4_request, …`
                let mut scope = old.split(',').next().unwrap_or_default().split('/').skip(2);
                let (Some(region), Some(service)) = (scope.next(), scope.next()) else {
                    return Ok(());
                };
                let unsigned = |hash: &http::HeaderValue| hash.as_bytes() == b"UNSIGNED-PAYLOAD";
                let is_unsigned = request.headers().get(BODY_HASH).is_some_and(unsigned);
                let credential = credentials.get_credential().await.map_err(refused)?;
                request.headers_mut().remove(AUTHORIZATION);
                AwsAuthorizer::new(&credential, service, region)
                    .with_sign_payload(!is_unsigned)
                    .try_authorize(request, None)
                    .map_err(refused)
            }
            Self::Azure(credentials) => {
                // `SharedKey <account>:<signature>`
                let Some((account, _)) = old
                    .strip_prefix("SharedKey ")
                    .and_then(|old| old.split_once(':'))
                else {
                    return Ok(());
                };
                let credential = credentials.get_credential().await.map_err(refused)?;
                request.headers_mut().remove(AUTHORIZATION);
                AzureAuthorizer::new(&credential, account)
                    .try_authorize(request)
                    .map_err(refused)
            }
            Self::Google => Ok(()),
        }
    }
}

fn refused(error: object_store::Error) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}
