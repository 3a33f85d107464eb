//! E-mail domains of organizations.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// One domain. Many organizations may claim it; only one proves that it is theirs.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organization_domains")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Who claims it.
    pub organization_id: Uuid,
    /// Punycode, lower case, no dot at the end; never changes once it is verified.
    pub domain: String,
    /// What the domain's TXT record must say: 256 random bits as 43 characters; never changes.
    pub verification_challenge: String,
    /// When the record was found; it is never looked for again.
    pub verified_at: Option<UtcTime>,
    /// Whether front ends make an account for who logs in with an address of the domain.
    pub jit_provisioning_enabled: bool,
    /// The only login for addresses of the domain; empty: any.
    pub sso_enforcement: String,
    /// The identity provider's name.
    pub saml_entity_id: Option<String>,
    /// Where the identity provider's answers are asked for.
    pub saml_acs_url: Option<String>,
    /// The identity provider's certificate.
    pub saml_x509_cert: Option<String>,
    /// When it was made.
    pub created_at: UtcTime,
    /// When a field last changed.
    pub updated_at: UtcTime,
}

impl Model {
    /// Whether it was proved to be the organization's.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.verified_at.is_some()
    }

    /// Whether all is known that SAML needs.
    #[must_use]
    pub const fn has_saml(&self) -> bool {
        self.saml_entity_id.is_some()
            && self.saml_acs_url.is_some()
            && self.saml_x509_cert.is_some()
    }
}

/// Reached by identifiers, not by joins.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}
