//! Features of organizations. An organization has all of them, unless an operator takes one away.
//! Existing things then go on, and can be read, stopped, emptied and deleted; new ones cannot be
//! created, started or set to another value. The activity log, which can only be read, cannot be
//! read without its feature.
//!
//! Batch exports are the exception: without their feature they are paused, and their backfills
//! cancelled. Once it is given back, they go on when somebody unpauses them, with a backfill of the
//! missed time if that is wanted.

use crate::entities::organizations;
use crate::error::ChangeError;

/// Feature that an operator can take away from an organization. This module has all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Feature {
    /// Name in the API.
    pub key: &'static str,
    /// Name for people.
    pub name: &'static str,
    /// Short description.
    pub description: &'static str,
}

/// Feature of having more than one project.
pub const ORGANIZATIONS_PROJECTS: Feature = feature(
    "organizations_projects",
    "Projects",
    "More than one project",
);
/// Feature of batch exports, destinations and transformations.
pub const DATA_PIPELINES: Feature = feature(
    "data_pipelines",
    "Data pipelines",
    "Batch exports, and the destinations and transformations of the plugin family",
);
/// Feature of domains.
pub const AUTOMATIC_PROVISIONING: Feature = feature(
    "automatic_provisioning",
    "Domains",
    "Verified e-mail domains and accounts made at the first login",
);
/// Feature of enforcing a login with Google, GitHub or GitLab; needs [`SSO_ENFORCEMENT`] as well.
pub const SOCIAL_SSO: Feature = feature(
    "social_sso",
    "Social login",
    "No other login for addresses of a domain than with Google, GitHub or GitLab",
);
/// Feature of enforcing any login.
pub const SSO_ENFORCEMENT: Feature = feature(
    "sso_enforcement",
    "Enforced single sign-on",
    "No other login for addresses of a domain",
);
/// Feature of identity providers.
pub const SAML: Feature = feature("saml", "SAML", "Single sign-on by SAML");
/// Feature of `enforce_2fa`.
pub const TWO_FACTOR_ENFORCEMENT: Feature = feature(
    "2fa_enforcement",
    "Enforced second factor",
    "No login without a second factor",
);
/// Feature of restricting members.
pub const ORGANIZATION_SECURITY_SETTINGS: Feature = feature(
    "organization_security_settings",
    "Security settings",
    "What members may do",
);
/// Feature of roles.
pub const ROLE_BASED_ACCESS: Feature =
    feature("role_based_access", "Roles", "Roles and who has them");
/// Feature of access to private projects.
pub const ADVANCED_PERMISSIONS: Feature = feature(
    "advanced_permissions",
    "Private projects",
    "Invites with access to private projects",
);
/// Feature of proxy records.
pub const MANAGED_REVERSE_PROXY: Feature = feature(
    "managed_reverse_proxy",
    "Proxy records",
    "Ingestion under a domain of one's own",
);
/// Feature of reading the activity log.
pub const AUDIT_LOGS: Feature = feature("audit_logs", "Activity log", "Who changed what");
/// Feature of imports.
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
    /// Returns true if the organization may use a feature.
    #[must_use]
    pub fn has_feature(&self, feature: Feature) -> bool {
        let mut disabled = self.disabled_features.0.iter();
        !disabled.any(|off| off == feature.key)
    }

    /// Refuses an organization that may not use a feature.
    ///
    /// # Errors
    ///
    /// An operator took the feature away.
    pub fn must_have(&self, feature: Feature) -> Result<(), ChangeError> {
        if self.has_feature(feature) {
            Ok(())
        } else {
            Err(ChangeError::FeatureMissing(feature.key))
        }
    }

    /// Features that the organization may use.
    pub fn features(&self) -> impl Iterator<Item = &'static Feature> {
        FEATURES
            .iter()
            .filter(|feature| self.has_feature(**feature))
    }
}
