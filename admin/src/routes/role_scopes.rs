//! Scopes and feature that operations of roles and of their members need.

use millrace_catalog::{Feature, RequiredScope, features};

/// Scopes for reading roles; either is enough.
pub(super) const READ: [RequiredScope; 2] = [
    RequiredScope::read("role"),
    RequiredScope::read("organization"),
];

/// Scopes for changing roles; either is enough.
pub(super) const WRITE: [RequiredScope; 2] = [
    RequiredScope::write("role"),
    RequiredScope::write("organization"),
];

/// Feature for roles. Without it they can still be read, deleted, and taken from members.
pub(super) const FEATURE: Feature = features::ROLE_BASED_ACCESS;
