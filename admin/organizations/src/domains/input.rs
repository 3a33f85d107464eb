//! Input for domains: what is sent to claim one and to change one.
//!
//! The API sends names in their normal form (punycode, lower case, no dot at the end), and
//! certificates that it parsed.

use crate::names::{checked_name, checked_text};
use millrace_catalog::entities::organization_domains as domains;
use millrace_catalog::text::LINES;
use millrace_catalog::{ChangeError, Patch};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

/// Longest domain, in characters.
const DOMAIN_CHARS_MAX: usize = 128;
/// Longest name or address of an identity provider, in characters.
const SAML_CHARS_MAX: usize = 512;
/// Longest certificate, in characters; several in PEM are much shorter.
const CERTIFICATE_CHARS_MAX: usize = 65_536;

/// Fields of a claimed domain.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "NewOrganizationDomain")]
pub struct NewDomain {
    /// Domain name, in any case and any script.
    #[schemars(length(min = 1, max = DOMAIN_CHARS_MAX), regex(pattern = r"\S"))]
    pub domain: String,
    /// Entity id of the identity provider.
    #[schemars(length(max = SAML_CHARS_MAX))]
    pub saml_entity_id: Option<String>,
    /// Address at which front ends receive the identity provider's assertions.
    #[schemars(length(max = SAML_CHARS_MAX))]
    pub saml_acs_url: Option<String>,
    /// Certificate of the identity provider: PEM, or its Base64 content.
    #[schemars(length(max = CERTIFICATE_CHARS_MAX), extend("x-text" = LINES))]
    pub saml_x509_cert: Option<String>,
}

impl NewDomain {
    /// Domain without an identity provider.
    #[must_use]
    pub fn named(domain: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            ..Self::default()
        }
    }

    /// Validates the fields.
    pub(super) fn checked(self) -> Result<Self, ChangeError> {
        Ok(Self {
            domain: checked_domain(&self.domain)?,
            saml_entity_id: checked_saml("saml_entity_id", self.saml_entity_id)?,
            saml_acs_url: checked_saml("saml_acs_url", self.saml_acs_url)?,
            saml_x509_cert: self.saml_x509_cert.and_then(unless_blank),
        })
    }
}

/// Logins that can be enforced for addresses of a domain; empty: any login.
pub const SSO_ENFORCEMENTS: [&str; 5] = ["", "saml", "google-oauth2", "github", "gitlab"];

/// Fields of a domain to change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[schemars(rename = "PatchOrganizationDomain")]
#[serde(default)]
pub struct DomainChange {
    /// Domain name; it can be changed only until the domain is verified.
    #[schemars(length(min = 1, max = DOMAIN_CHARS_MAX), regex(pattern = r"\S"))]
    pub domain: Patch<String>,
    /// True if front ends create an account for a person who logs in with an address of the domain.
    /// It can be set only once the domain is verified.
    pub jit_provisioning_enabled: Patch<bool>,
    /// Login that addresses of the domain must use; empty: any. It can be set only once the domain
    /// is verified.
    #[schemars(schema_with = "sso_schema")]
    pub sso_enforcement: Patch<String>,
    /// Entity id of the identity provider.
    #[schemars(length(max = SAML_CHARS_MAX))]
    pub saml_entity_id: Patch<Option<String>>,
    /// Address at which front ends receive the identity provider's assertions.
    #[schemars(length(max = SAML_CHARS_MAX))]
    pub saml_acs_url: Patch<Option<String>>,
    /// Certificate of the identity provider: PEM, or its Base64 content.
    #[schemars(length(max = CERTIFICATE_CHARS_MAX), extend("x-text" = LINES))]
    pub saml_x509_cert: Patch<Option<String>>,
}

/// Schema of a login that can be enforced.
fn sso_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": SSO_ENFORCEMENTS })
}

impl DomainChange {
    /// Validates the fields that were sent.
    pub(super) fn checked(self) -> Result<Self, ChangeError> {
        if let Patch::Value(sso) = &self.sso_enforcement
            && !SSO_ENFORCEMENTS.contains(&sso.as_str())
        {
            let detail = "Enforce saml, google-oauth2, github, gitlab, or nothing.";
            let field = "sso_enforcement";
            return Err(ChangeError::invalid(field, "invalid_choice", detail));
        }
        let entity_id = |text| checked_saml("saml_entity_id", text);
        let acs_url = |text| checked_saml("saml_acs_url", text);
        let certificate = |text: Option<String>| text.and_then(unless_blank);
        Ok(Self {
            domain: self.domain.checked(|domain| checked_domain(&domain))?,
            saml_entity_id: self.saml_entity_id.checked(entity_id)?,
            saml_acs_url: self.saml_acs_url.checked(acs_url)?,
            saml_x509_cert: self.saml_x509_cert.map(certificate),
            ..self
        })
    }

    /// Writes the fields that were sent.
    pub(super) fn apply_to(self, domain: &mut domains::Model) {
        let Self {
            domain: name,
            jit_provisioning_enabled,
            sso_enforcement,
            saml_entity_id,
            saml_acs_url,
            saml_x509_cert,
        } = self;
        name.apply_to(&mut domain.domain);
        jit_provisioning_enabled.apply_to(&mut domain.jit_provisioning_enabled);
        sso_enforcement.apply_to(&mut domain.sso_enforcement);
        saml_entity_id.apply_to(&mut domain.saml_entity_id);
        saml_acs_url.apply_to(&mut domain.saml_acs_url);
        saml_x509_cert.apply_to(&mut domain.saml_x509_cert);
    }
}

fn checked_domain(domain: &str) -> Result<String, ChangeError> {
    checked_name("a domain", "domain", domain, DOMAIN_CHARS_MAX)
}

/// Validates a field of the identity provider; a blank text is `None`.
fn checked_saml(field: &'static str, text: Option<String>) -> Result<Option<String>, ChangeError> {
    let text = text.map(|text| checked_text(field, &text, SAML_CHARS_MAX));
    Ok(text.transpose()?.and_then(unless_blank))
}

fn unless_blank(text: String) -> Option<String> {
    (!text.trim().is_empty()).then_some(text)
}
