//! Wire type of domains, and checks of what is sent.

use crate::certificates::is_certificate;
use crate::domain_name::normalized;
use crate::error::ApiError;
use crate::request::auth::require_feature;
use millrace_catalog::{Domain, Organization, Patch, UtcTime, features};
use millrace_organizations::{DomainChange, NewDomain};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// Normalizes the name of a claimed domain, and checks its identity provider.
///
/// # Errors
///
/// 400 for an invalid domain or certificate; 403 without the feature.
pub(super) fn checked_claim(
    new: NewDomain,
    organization: &Organization,
) -> Result<NewDomain, ApiError> {
    let domain = checked_domain(&new.domain)?;
    check_certificate(new.saml_x509_cert.as_deref())?;
    let saml = [&new.saml_entity_id, &new.saml_acs_url, &new.saml_x509_cert];
    if saml.iter().any(|field| field.is_some()) {
        require_feature(organization, features::SAML)?;
    }
    Ok(NewDomain { domain, ..new })
}

/// Normalizes the new name of a domain, and checks its certificate.
///
/// # Errors
///
/// 400 for an invalid domain or certificate.
pub(super) fn checked_change(change: DomainChange) -> Result<DomainChange, ApiError> {
    let domain = change.domain.checked(|domain| checked_domain(&domain))?;
    if let Patch::Value(certificate) = &change.saml_x509_cert {
        check_certificate(certificate.as_deref())?;
    }
    Ok(DomainChange { domain, ..change })
}

/// A domain that an organization claims.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationDomain")]
pub(super) struct DomainBody {
    /// Id of the domain.
    id: Uuid,
    /// Domain name in Punycode, lower case.
    domain: String,
    /// True if the TXT record was found.
    is_verified: bool,
    /// Time of the verification; null until then.
    verified_at: Option<UtcTime>,
    /// Text that the TXT record must have; it never changes.
    verification_challenge: String,
    /// True if front ends create an account for a person who logs in with an address of the domain.
    jit_provisioning_enabled: bool,
    /// Enforced login: `saml`, `google-oauth2`, `github`, `gitlab`, or empty.
    sso_enforcement: String,
    /// True if the three fields of SAML are set.
    has_saml: bool,
    /// Entity id of the identity provider.
    saml_entity_id: Option<String>,
    /// Address at which front ends receive the identity provider's assertions.
    saml_acs_url: Option<String>,
    /// Certificate of the identity provider: PEM, or its Base64 content.
    saml_x509_cert: Option<String>,
}

impl From<Domain> for DomainBody {
    fn from(domain: Domain) -> Self {
        Self {
            id: domain.id,
            is_verified: domain.is_verified(),
            has_saml: domain.has_saml(),
            domain: domain.domain,
            verified_at: domain.verified_at,
            verification_challenge: domain.verification_challenge,
            jit_provisioning_enabled: domain.jit_provisioning_enabled,
            sso_enforcement: domain.sso_enforcement,
            saml_entity_id: domain.saml_entity_id,
            saml_acs_url: domain.saml_acs_url,
            saml_x509_cert: domain.saml_x509_cert,
        }
    }
}

fn checked_domain(domain: &str) -> Result<String, ApiError> {
    normalized(domain).ok_or_else(|| {
        let detail = "This is not a domain name that a person can own.";
        ApiError::invalid("invalid_input", Some("domain"), detail)
    })
}

/// Checks a certificate; a blank one counts as none, which is allowed.
fn check_certificate(text: Option<&str>) -> Result<(), ApiError> {
    match text {
        Some(text) if !text.trim().is_empty() && !is_certificate(text) => {
            let detail = "This is not an X.509 certificate; paste it as PEM.";
            Err(ApiError::invalid(
                "invalid_input",
                Some("saml_x509_cert"),
                detail,
            ))
        }
        _ => Ok(()),
    }
}
