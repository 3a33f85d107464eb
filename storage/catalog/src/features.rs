//! What an organization may use. All of it, unless an operator takes something away.

use crate::entities::organizations;

/// Something that can be taken away from an organization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name in the API.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
}

/// The feature without which an organization has one project at most.
pub(crate) const MORE_PROJECTS: &str = "organizations_projects";

/// Every feature.
pub const FEATURES: [Feature; 15] = [
    feature(MORE_PROJECTS, "Projects", "More than one project"),
    feature(
        "data_pipelines",
        "Data pipelines",
        "Batch exports, and the destinations and transformations of the plugin family",
    ),
    feature(
        "automatic_provisioning",
        "Domains",
        "Verified e-mail domains and accounts made at the first login",
    ),
    feature("social_sso", "Social login", "Login with other services"),
    feature(
        "sso_enforcement",
        "Enforced single sign-on",
        "No other login for addresses of a domain",
    ),
    feature("saml", "SAML", "Single sign-on by SAML"),
    feature(
        "2fa_enforcement",
        "Enforced second factor",
        "No login without a second factor",
    ),
    feature(
        "organization_invite_settings",
        "Invite settings",
        "Who may invite",
    ),
    feature(
        "organization_security_settings",
        "Security settings",
        "What keys and members may do",
    ),
    feature("role_based_access", "Roles", "Roles and who has them"),
    feature(
        "advanced_permissions",
        "Private projects",
        "Projects that only some members see",
    ),
    feature(
        "managed_reverse_proxy",
        "Proxy records",
        "Ingestion under a domain of one's own",
    ),
    feature("audit_logs", "Activity log", "Who changed what"),
    feature(
        "historical_migrations",
        "Historical migrations",
        "Imports of events from elsewhere",
    ),
    feature(
        "group_analytics",
        "Groups",
        "Events that belong to companies or other groups",
    ),
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
    pub fn has_feature(&self, key: &str) -> bool {
        !self.disabled_features.0.iter().any(|off| off == key)
    }

    /// The features that it may use.
    pub fn features(&self) -> impl Iterator<Item = &'static Feature> {
        FEATURES
            .iter()
            .filter(|feature| self.has_feature(feature.key))
    }
}
