//! Wire types of domains.

use crate::certificates::is_certificate;
use crate::control_characters::LINES;
use crate::domain_name::normalized;
use crate::error::ApiError;
use crate::request::auth::require_feature;
use crate::timestamp::Timestamp;
use millrace_catalog::{Domain, Organization, Patch, features};
use millrace_organizations::{DomainChange, NewDomain};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Longest domain, in characters.
const DOMAIN_CHARS_MAX: usize = 128;
/// Longest name or address of an identity provider, in characters.
const SAML_CHARS_MAX: usize = 512;
/// Longest certificate, in characters; several in PEM are much shorter.
const CERTIFICATE_CHARS_MAX: usize = 65_536;

/// Fields of a claimed domain.
#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "NewOrganizationDomain")]
pub(super) struct NewBody {
    /// Domain name, in any case and any script.
    #[schemars(length(min = 1, max = DOMAIN_CHARS_MAX), regex(pattern = r"\S"))]
    domain: String,
    /// Entity id of the identity provider.
    #[serde(default)]
    #[schemars(length(max = SAML_CHARS_MAX))]
    saml_entity_id: Patch<Option<String>>,
    /// Address at which front ends receive the identity provider's assertions.
    #[serde(default)]
    #[schemars(length(max = SAML_CHARS_MAX))]
    saml_acs_url: Patch<Option<String>>,
    /// Certificate of the identity provider: PEM, or its Base64 content.
    #[serde(default)]
    #[schemars(length(max = CERTIFICATE_CHARS_MAX), extend("x-text" = LINES))]
    saml_x509_cert: Patch<Option<String>>,
}

impl NewBody {
    /// Converts the body for the catalog.
    ///
    /// # Errors
    ///
    /// 400 for an invalid domain or certificate; 403 without the feature.
    pub(super) fn domain(self, organization: &Organization) -> Result<NewDomain, ApiError> {
        let new = NewDomain {
            domain: checked_domain(&self.domain)?,
            saml_entity_id: self.saml_entity_id.sent().flatten(),
            saml_acs_url: self.saml_acs_url.sent().flatten(),
            saml_x509_cert: self.saml_x509_cert.sent().flatten(),
        };
        check_certificate(new.saml_x509_cert.as_deref())?;
        let saml = [&new.saml_entity_id, &new.saml_acs_url, &new.saml_x509_cert];
        if saml.iter().any(|field| field.is_some()) {
            require_feature(organization, features::SAML)?;
        }
        Ok(new)
    }
}

/// Fields of a domain to change.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchOrganizationDomain")]
#[serde(default)]
pub(super) struct PatchBody {
    /// Domain name; it can be changed only until the domain is verified.
    #[schemars(length(min = 1, max = DOMAIN_CHARS_MAX), regex(pattern = r"\S"))]
    domain: Patch<String>,
    /// True if front ends create an account for a person who logs in with an address of the domain.
    /// It can be set only once the domain is verified.
    jit_provisioning_enabled: Patch<bool>,
    /// Login that addresses of the domain must use; empty: any. It can be set only once the domain
    /// is verified.
    sso_enforcement: Patch<SsoEnforcement>,
    /// Entity id of the identity provider.
    #[schemars(length(max = SAML_CHARS_MAX))]
    saml_entity_id: Patch<Option<String>>,
    /// Address at which front ends receive the identity provider's assertions.
    #[schemars(length(max = SAML_CHARS_MAX))]
    saml_acs_url: Patch<Option<String>>,
    /// Certificate of the identity provider: PEM, or its Base64 content.
    #[schemars(length(max = CERTIFICATE_CHARS_MAX), extend("x-text" = LINES))]
    saml_x509_cert: Patch<Option<String>>,
}

/// Login that a domain enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[schemars(inline)]
enum SsoEnforcement {
    #[serde(rename = "")]
    Any,
    #[serde(rename = "saml")]
    Saml,
    #[serde(rename = "google-oauth2")]
    Google,
    #[serde(rename = "github")]
    Github,
    #[serde(rename = "gitlab")]
    Gitlab,
}

impl SsoEnforcement {
    fn name(self) -> &'static str {
        match self {
            Self::Any => "",
            Self::Saml => "saml",
            Self::Google => "google-oauth2",
            Self::Github => "github",
            Self::Gitlab => "gitlab",
        }
    }
}

impl PatchBody {
    /// Converts the body for the catalog.
    ///
    /// # Errors
    ///
    /// 400 for an invalid domain or certificate.
    pub(super) fn change(self) -> Result<DomainChange, ApiError> {
        let domain = self.domain.sent().as_deref().map(checked_domain);
        let enforced = self.sso_enforcement.sent();
        let change = DomainChange {
            domain: domain.transpose()?,
            jit_provisioning_enabled: self.jit_provisioning_enabled.sent(),
            sso_enforcement: enforced.map(|sso| sso.name().to_owned()),
            saml_entity_id: self.saml_entity_id.sent(),
            saml_acs_url: self.saml_acs_url.sent(),
            saml_x509_cert: self.saml_x509_cert.sent(),
        };
        check_certificate(
            change
                .saml_x509_cert
                .iter()
                .flatten()
                .map(String::as_str)
                .next(),
        )?;
        Ok(change)
    }
}

/// A domain that an organization claims.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "OrganizationDomain")]
pub(super) struct DomainBody {
    id: Uuid,
    /// Domain name in Punycode, lower case.
    domain: String,
    is_verified: bool,
    verified_at: Option<Timestamp>,
    /// Text that the TXT record must have; it never changes.
    verification_challenge: String,
    jit_provisioning_enabled: bool,
    /// Enforced login: `saml`, `google-oauth2`, `github`, `gitlab`, or empty.
    sso_enforcement: String,
    /// True if the three fields of SAML are set.
    has_saml: bool,
    saml_entity_id: Option<String>,
    saml_acs_url: Option<String>,
    saml_x509_cert: Option<String>,
}

impl From<Domain> for DomainBody {
    fn from(domain: Domain) -> Self {
        Self {
            id: domain.id,
            is_verified: domain.is_verified(),
            has_saml: domain.has_saml(),
            domain: domain.domain,
            verified_at: domain.verified_at.map(Timestamp::from),
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
