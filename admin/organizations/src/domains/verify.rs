//! Proving domains. DNS is queried between two calls, outside any transaction.

use super::{Domains, VERIFIED, domain_to_change, find_domain, must_be_free};
use millrace_catalog::entities::organization_domains as domains;
use millrace_catalog::features::AUTOMATIC_PROVISIONING;
use millrace_catalog::transaction::Abort;
use millrace_catalog::{Actor, ChangeError};
use sea_orm::prelude::Uuid;

impl Domains<'_> {
    /// Reads a domain whose proof is about to be looked for.
    ///
    /// # Errors
    ///
    /// The organization has no such domain, it is proved already (`already_verified`), or another
    /// organization proved it (`unique`).
    pub async fn get_unproved(
        self,
        organization_id: Uuid,
        id: Uuid,
    ) -> Result<domains::Model, ChangeError> {
        let read = async {
            let found = find_domain(self.0.reader(), organization_id, id).await?;
            let domain = found.ok_or_else(|| ChangeError::not_found("domain", &id))?;
            must_be_unverified(&domain)?;
            must_be_free(self.0.reader(), &domain.domain).await?;
            Ok(domain)
        };
        read.await.map_err(|abort| self.0.reason(abort))
    }

    /// Marks a domain as proved; requires administrator. `proved` is the domain whose proof was
    /// found: a record that was changed to another domain meanwhile stays as it is.
    ///
    /// # Errors
    ///
    /// As [`Domains::get_unproved`], or the actor may not.
    pub async fn verify(
        self,
        actor: &Actor,
        organization_id: Uuid,
        id: Uuid,
        proved: &str,
    ) -> Result<domains::Model, ChangeError> {
        let transaction = self.0.begin().await?;
        let verified = async {
            let (organization, before) =
                domain_to_change(&transaction, actor, organization_id, id).await?;
            organization.must_have(AUTOMATIC_PROVISIONING)?;
            must_be_unverified(&before)?;
            if before.domain != proved {
                return Ok(before);
            }
            must_be_free(&transaction, proved).await?;
            let after = domains::Model {
                verified_at: Some(self.0.now()),
                ..before.clone()
            };
            self.save(&transaction, actor, before, after).await
        };
        let verified = verified.await;
        self.0.finish(transaction, verified).await
    }
}

fn must_be_unverified(domain: &domains::Model) -> Result<(), Abort> {
    if domain.is_verified() {
        return Err(ChangeError::invalid(None, "already_verified", VERIFIED).into());
    }
    Ok(())
}
