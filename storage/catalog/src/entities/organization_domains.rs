//! E-mail domains of organizations.

use crate::UtcTime;
use sea_orm::entity::prelude::{
    ActiveModelBehavior, DeriveEntityModel, DerivePrimaryKey, DeriveRelation, EntityTrait,
    EnumIter, PrimaryKeyTrait, Uuid,
};

/// Domain. Many organizations may claim it; only one proves that it is theirs.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "organization_domains")]
pub struct Model {
    /// UUID v7.
    #[sea_orm(primary_key, auto_increment = false)]
    pub id: Uuid,
    /// Organization that claims it.
    pub organization_id: Uuid,
    /// Domain in Punycode, lower case, no dot at the end; never changes once it is verified.
    pub domain: String,
    /// Expected text of the domain's TXT record: 256 random bits as 43 characters; never changes.
    pub verification_challenge: String,
    /// Time at which the record was found; it is never looked for again.
    pub verified_at: Option<UtcTime>,
    /// True if front ends create an account for people who log in with an address of the domain.
    pub jit_provisioning_enabled: bool,
    /// Only login for addresses of the domain; empty: any.
    pub sso_enforcement: String,
    /// Name of the identity provider.
    pub saml_entity_id: Option<String>,
    /// URL at which the identity provider's answers are asked for.
    pub saml_acs_url: Option<String>,
    /// Certificate of the identity provider.
    pub saml_x509_cert: Option<String>,
    /// Time of creation.
    pub created_at: UtcTime,
    /// Time at which a field last changed.
    pub updated_at: UtcTime,
}

impl Model {
    /// Returns true if the domain was proved to be the organization's.
    #[must_use]
    pub const fn is_verified(&self) -> bool {
        self.verified_at.is_some()
    }

    /// Returns true if all settings that SAML needs are there.
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
