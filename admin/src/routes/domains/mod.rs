//! `/api/organizations/:organization_id/domains/`.

mod wire;

use crate::context::Context;
use crate::dns::Proof;
use crate::error::ApiError;
use crate::operation::{Limit, Operation};
use crate::page::Envelope;
use crate::schema::Nothing;
use millrace_catalog::{Feature, Level, RequiredScope, features};
use millrace_organizations::{DomainChange, Domains, NewDomain};
use wire::{DomainBody, checked_change, checked_claim};

const ALL: &str = "/api/organizations/{organization_id}/domains/";
const ONE: &str = "/api/organizations/{organization_id}/domains/{id}/";
const VERIFY: &str = "/api/organizations/{organization_id}/domains/{id}/verify/";
const READ: [RequiredScope; 1] = [RequiredScope::read("organization")];
const WRITE: [RequiredScope; 1] = [RequiredScope::write("organization")];
/// Feature for claiming domains. Without it they can still be read and given up.
const FEATURE: Feature = features::AUTOMATIC_PROVISIONING;
const BAD_FIELD: &str =
    "The domain is not a name that a person can own, or the certificate is invalid.";
const TAKEN: &str =
    "The organization has the domain already, or another organization verified it first.";
const UNPROVED: &str = "Logins can be set only once the domain is verified.";

/// Operations of domains.
pub(crate) fn operations() -> Vec<Operation> {
    vec![
        Operation::list(ALL, list)
            .about("List the domains of an organization")
            .scopes(&READ),
        Operation::create(ALL, create)
            .about("Claim a domain")
            .limited_by(&[Limit::Domains])
            .note(
                "Then publish the `verification_challenge` as a TXT record of \
                             `_millrace-challenge.<domain>`, and verify the domain.",
            )
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", BAD_FIELD)
            .fails(400, "unique", TAKEN),
        Operation::get(ONE, retrieve)
            .about("Read a domain")
            .scopes(&READ),
        Operation::patch(ONE, &["domain"], update)
            .about("Change a domain")
            .note("A verified domain keeps its name.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "invalid_input", BAD_FIELD)
            .fails(400, "unique", TAKEN)
            .fails(400, "verification_required", UNPROVED),
        Operation::delete(ONE, delete)
            .about("Give a domain up")
            .scopes(&WRITE)
            .level(Level::Administrator),
        Operation::action(VERIFY, verify)
            .waits_outside()
            .about("Verify a domain by its TXT record")
            .note("Without the record, or without an answer of the nameserver, the domain stays as it is.")
            .scopes(&WRITE)
            .feature(FEATURE)
            .level(Level::Administrator)
            .fails(400, "already_verified", "The domain is verified already.")
            .fails(400, "unique", TAKEN),
    ]
}

async fn list(context: Context) -> Result<Envelope<DomainBody>, ApiError> {
    let (id, page) = (context.organization_id()?, context.page());
    let read = |page| context.domains().list(id, page);
    context.list(page, read).await
}

async fn retrieve(context: Context) -> Result<DomainBody, ApiError> {
    let (organization, id) = (context.organization_id()?, context.uuid("id")?);
    let found = context.domains().get(organization, id).await?;
    found.map(DomainBody::from).ok_or_else(ApiError::not_found)
}

async fn create(context: Context, new: NewDomain) -> Result<DomainBody, ApiError> {
    let new = checked_claim(new, &context.organization()?.organization)?;
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let made = context.domains().create(&actor, organization, new);
    Ok(made.await?.into())
}

async fn update(context: Context, change: DomainChange) -> Result<DomainBody, ApiError> {
    let change = checked_change(change)?;
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    let changed = context.domains().update(&actor, organization, id, change);
    Ok(changed.await?.into())
}

async fn delete(context: Context) -> Result<(), ApiError> {
    let (actor, organization) = (context.actor()?, context.organization_id()?);
    let id = context.uuid("id")?;
    Ok(context.domains().delete(&actor, organization, id).await?)
}

async fn verify(context: Context, _: Nothing) -> Result<DomainBody, ApiError> {
    let (organization, id) = (context.organization_id()?, context.uuid("id")?);
    let catalog = context.catalog();
    let domain = Domains::new(catalog).get_unproved(organization, id).await?;
    let dns = &context.services.dns;
    match dns
        .proof(&domain.domain, &domain.verification_challenge)
        .await
    {
        Ok(Proof::Found) => {
            let actor = context.actor()?;
            let verified = Domains::new(catalog).verify(&actor, organization, id, &domain.domain);
            Ok(verified.await?.into())
        }
        Ok(found) => {
            tracing::info!(domain = domain.domain, ?found, "a domain was not proved");
            Ok(domain.into())
        }
        Err(error) => {
            tracing::warn!(domain = domain.domain, %error, "a domain's proof was not found");
            Ok(domain.into())
        }
    }
}
