//! What an organization may use. All of it, unless an operator takes something away. What is there
//! of it by then goes on, and can be read, stopped, emptied and deleted; it cannot be made, started
//! or set to another value. What can only be read, the log of activity, cannot be read without its
//! feature.
//!
//! Batch exports do not go on: they are paused, and their backfills cancelled. Given back, they go
//! on when somebody unpauses them, with a backfill of what was missed if that is wanted.

use crate::entities::organizations;
use crate::error::ChangeError;

/// Something that can be taken away from an organization. There are those of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// Its name in the API.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
}

/// The feature without which an organization has one project at most.
pub const ORGANIZATIONS_PROJECTS: Feature = feature(
    "organizations_projects",
    "Projects",
    "More than one project",
);
/// The feature of batch exports, destinations and transformations.
pub const DATA_PIPELINES: Feature = feature(
    "data_pipelines",
    "Data pipelines",
    "Batch exports, and the destinations and transformations of the plugin family",
);
/// The feature of domains.
pub const AUTOMATIC_PROVISIONING: Feature = feature(
    "automatic_provisioning",
    "Domains",
    "Verified e-mail domains and accounts made at the first login",
);
/// The feature of enforcing a login with Google, GitHub or GitLab; takes [`SSO_ENFORCEMENT`] as well.
pub const SOCIAL_SSO: Feature = feature(
    "social_sso",
    "Social login",
    "No other login for addresses of a domain than with Google, GitHub or GitLab",
);
/// The feature of enforcing any login.
pub const SSO_ENFORCEMENT: Feature = feature(
    "sso_enforcement",
    "Enforced single sign-on",
    "No other login for addresses of a domain",
);
/// The feature of identity providers.
pub const SAML: Feature = feature("saml", "SAML", "Single sign-on by SAML");
/// The feature of `enforce_2fa`.
pub const TWO_FACTOR_ENFORCEMENT: Feature = feature(
    "2fa_enforcement",
    "Enforced second factor",
    "No login without a second factor",
);
/// The feature of keeping members from what they may do otherwise.
pub const ORGANIZATION_SECURITY_SETTINGS: Feature = feature(
    "organization_security_settings",
    "Security settings",
    "What members may do",
);
/// The feature of roles.
pub const ROLE_BASED_ACCESS: Feature =
    feature("role_based_access", "Roles", "Roles and who has them");
/// The feature of access to private projects.
pub const ADVANCED_PERMISSIONS: Feature = feature(
    "advanced_permissions",
    "Private projects",
    "Invites with access to private projects",
);
/// The feature of proxy records.
pub const MANAGED_REVERSE_PROXY: Feature = feature(
    "managed_reverse_proxy",
    "Proxy records",
    "Ingestion under a domain of one's own",
);
/// The feature of reading the activity log.
pub const AUDIT_LOGS: Feature = feature("audit_logs", "Activity log", "Who changed what");
/// The feature of imports.
pub const HISTORICAL_MIGRATIONS: Feature = feature(
    "historical_migrations",
    "Historical migrations",
    "Imports of events from elsewhere",
);

/// Every feature.
pub const FEATURES: [Feature; 13] = [
    ORGANIZATIONS_PROJECTS,
    DATA_PIPELINES,
    AUTOMATIC_PROVISIONING,
    SOCIAL_SSO,
    SSO_ENFORCEMENT,
    SAML,
    TWO_FACTOR_ENFORCEMENT,
    ORGANIZATION_SECURITY_SETTINGS,
    ROLE_BASED_ACCESS,
    ADVANCED_PERMISSIONS,
    MANAGED_REVERSE_PROXY,
    AUDIT_LOGS,
    HISTORICAL_MIGRATIONS,
];

const fn feature(key: &'static str, name: &'static str, description: &'static str) -> Feature {
    Feature {
        key,
        name,
        description,
    }
}

impl organizations::Model {
    /// Whether the organization may use a feature.
    #[must_use]
    pub fn has_feature(&self, feature: Feature) -> bool {
        let mut disabled = self.disabled_features.0.iter();
        !disabled.any(|off| off == feature.key)
    }

    /// Lets an organization pass that may use a feature.
    pub(crate) fn must_have(&self, feature: Feature) -> Result<(), ChangeError> {
        if self.has_feature(feature) {
            Ok(())
        } else {
            Err(ChangeError::FeatureMissing(feature.key))
        }
    }

    /// The features that it may use.
    pub fn features(&self) -> impl Iterator<Item = &'static Feature> {
        FEATURES
            .iter()
            .filter(|feature| self.has_feature(**feature))
    }
}
