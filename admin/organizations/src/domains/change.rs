//! Changing domains: their name until it is proved, and their login rules afterwards.

use super::{
    DomainChange, Domains, domain_audit, domain_to_change, must_be_free, taken_if_duplicate,
};
use millrace_catalog::entities::{organization_domains as domains, organizations};
use millrace_catalog::features::{
    AUTOMATIC_PROVISIONING, Feature, SAML, SOCIAL_SSO, SSO_ENFORCEMENT,
};
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Activity, Actor, ChangeError};
use sea_orm::prelude::Uuid;
use sea_orm::{ActiveModelTrait, DatabaseTransaction, EntityTrait, IntoActiveModel};

impl Domains<'_> {
    /// Changes a domain; requires administrator.
    ///
    /// # Errors
    ///
    /// The organization has no such domain; a field is blank, too long or none of its choices; the
    /// domain of a verified record is changed; the login of an unverified one is
    /// (`verification_required`); the domain is taken (`unique`); [`ChangeError::FeatureMissing`]
    /// for another login; or the actor may not.
    pub async fn update(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
        change: DomainChange,
    ) -> Result<domains::Model, ChangeError> {
        let change = change.checked()?;
        let transaction = self.0.begin().await?;
        let changed = async {
            let (organization, before) =
                domain_to_change(&transaction, actor, organization_id, id).await?;
            organization.must_have(AUTOMATIC_PROVISIONING)?;
            let mut after = before.clone();
            change.apply_to(&mut after);
            must_have_features(&organization, &before, &after)?;
            must_be_allowed(&before, &after)?;
            if after.domain != before.domain {
                must_be_free(&transaction, &after.domain).await?;
            }
            self.save(&transaction, actor, before, after).await
        };
        let changed = changed.await;
        self.0.finish(transaction, changed).await
    }

    /// Writes a changed domain and its audit entry; nothing if no field differs.
    pub(super) async fn save(
        self,
        within: &DatabaseTransaction,
        actor: &Actor,
        before: domains::Model,
        mut after: domains::Model,
    ) -> Result<domains::Model, Abort> {
        let (old, new) = (&before, &after);
        let jit = "jit_provisioning_enabled";
        let audit = domain_audit(Activity::Updated, new)
            .field("domain", &old.domain, &new.domain)
            .field("is_verified", old.is_verified(), new.is_verified())
            .field(
                jit,
                old.jit_provisioning_enabled,
                new.jit_provisioning_enabled,
            )
            .field(
                "sso_enforcement",
                &old.sso_enforcement,
                &new.sso_enforcement,
            )
            .field("saml_entity_id", &old.saml_entity_id, &new.saml_entity_id)
            .field("saml_acs_url", &old.saml_acs_url, &new.saml_acs_url)
            .field("saml_x509_cert", &old.saml_x509_cert, &new.saml_x509_cert);
        if audit.changes_nothing() {
            return Ok(before);
        }
        let is_verified = after.is_verified();
        after.updated_at = self.0.now();
        let row = after.into_active_model().reset_all();
        let saved = domains::Entity::update(row).exec(within);
        let saved = saved.await;
        let saved = saved.map_err(|error| taken_if_duplicate(error, is_verified))?;
        self.0.record(within, actor, audit).await?;
        Ok(saved)
    }
}

/// Checks the features of changed fields; sending a value again needs none.
fn must_have_features(
    organization: &organizations::Model,
    before: &domains::Model,
    after: &domains::Model,
) -> Result<(), ChangeError> {
    let saml = [
        (&before.saml_entity_id, &after.saml_entity_id),
        (&before.saml_acs_url, &after.saml_acs_url),
        (&before.saml_x509_cert, &after.saml_x509_cert),
    ];
    if saml.iter().any(|(old, new)| new.is_some() && old != new) {
        organization.must_have(SAML)?;
    }
    if before.sso_enforcement != after.sso_enforcement {
        for feature in features_of(&after.sso_enforcement) {
            organization.must_have(*feature)?;
        }
    }
    Ok(())
}

/// Features that enforcing a login needs.
fn features_of(sso_enforcement: &str) -> &'static [Feature] {
    match sso_enforcement {
        "" => &[],
        "saml" => &[SSO_ENFORCEMENT, SAML],
        _ => &[SSO_ENFORCEMENT, SOCIAL_SSO],
    }
}

/// Refuses changes that the proof forbids or that wait for it; sending a value again is no change.
fn must_be_allowed(before: &domains::Model, after: &domains::Model) -> Result<(), ChangeError> {
    if before.is_verified() {
        if before.domain == after.domain {
            return Ok(());
        }
        let detail = "This domain is verified; delete it and add the other one.";
        return Err(ChangeError::invalid("domain", "invalid_input", detail));
    }
    let field = if before.jit_provisioning_enabled != after.jit_provisioning_enabled {
        "jit_provisioning_enabled"
    } else if before.sso_enforcement != after.sso_enforcement {
        "sso_enforcement"
    } else {
        return Ok(());
    };
    let detail = "Verify the domain first.";
    Err(ChangeError::invalid(field, "verification_required", detail))
}
