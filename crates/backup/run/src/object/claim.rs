//! Claims on a part, for servers that may ignore conditions, or check and write in two steps.
//!
//! Each writer puts an object with a unique name beside the part before it looks for other claims.
//! Of two that publish at once at least one sees the other, so that neither overwrites data that
//! was acknowledged to the other.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use futures_util::TryStreamExt;
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStoreExt, PutPayload};

use super::ObjectFault;
use super::access::{Access, jittered};

/// Age from which a claim belongs to a process that has ended: publishing takes less.
const STALE_S: i64 = 3600;
/// Approximate waits of a writer that stepped back before each new try.
const WAITS: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1600),
];

impl Access {
    /// Claims the part `key`. Returns the claim, which must be released, or `None` if the store's
    /// own conditions suffice. Two that claim at once both step back, and retry after different
    /// times: one then continues, and the other finds the published part.
    ///
    /// # Errors
    /// `Claimed` while another writer publishes the same part.
    pub(super) async fn claim(&self, key: &Path) -> Result<Option<Path>, ObjectFault> {
        if self.connection.keeps_conditions {
            return Ok(None);
        }
        for wait in WAITS {
            if let Some(claim) = self.claim_once(key).await? {
                return Ok(Some(claim));
            }
            tokio::time::sleep(jittered(wait)).await;
        }
        self.claim_once(key).await?.map(Some).ok_or(ObjectFault::Claimed)
    }

    /// As [`Self::claim`], without retrying; `None` while another writer has a claim.
    async fn claim_once(&self, key: &Path) -> Result<Option<Path>, ObjectFault> {
        let random = RandomState::new().hash_one(std::process::id());
        let beginning = format!("{key}.claim-");
        let claimant = self.options.claimant.as_deref();
        let ours = claimant.map(|claimant| format!("{beginning}{claimant}-"));
        let start = ours.as_ref().unwrap_or(&beginning);
        let own = Path::parse(format!("{start}{random:016x}")).map_err(|error| {
            ObjectFault::Refused { reason: format!("no name for a claim: {error}") }
        })?;
        let store = &self.connection.store;
        self.tries(0).make(|| store.put(&own, PutPayload::from_static(b"\n"))).await?;
        let claims = self.tries(0).make(|| self.claims(key, &beginning)).await;
        let claims = match claims {
            Ok(claims) => claims,
            Err(fault) => {
                self.release(&own).await;
                return Err(fault);
            }
        };
        let (left, claims): (Vec<_>, Vec<_>) = claims.into_iter().partition(|claim| {
            let name = claim.location.as_ref();
            claim.location != own && ours.as_ref().is_some_and(|ours| name.starts_with(ours))
        });
        // Of a process that was killed: there is one at a time.
        for claim in left {
            self.release(&claim.location).await;
        }
        if !others_of(&claims, &own) {
            return Ok(Some(own));
        }
        self.release(&own).await;
        Ok(None)
    }

    /// Ends a claim. A claim that remains becomes stale after some time.
    pub(super) async fn release(&self, claim: &Path) {
        let _ = self.delete(claim).await;
    }

    async fn claims(&self, key: &Path, beginning: &str) -> object_store::Result<Vec<ObjectMeta>> {
        let is_claim = |object: &ObjectMeta| object.location.as_ref().starts_with(beginning);
        let mut found: Vec<ObjectMeta> = Vec::new();
        let Some(list) = &self.connection.list else {
            let parents: Vec<_> = key.parts().collect();
            let parent: Path = parents[..parents.len().saturating_sub(1)].iter().cloned().collect();
            let mut objects = self.connection.store.list(Some(&parent));
            while let Some(object) = objects.try_next().await? {
                found.extend(Some(object).filter(is_claim));
            }
            return Ok(found);
        };
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = list.list_paginated(Some(beginning), options).await?;
            found.extend(page.result.objects.into_iter().filter(is_claim));
            match page.page_token {
                Some(token) => page_token = Some(token),
                None => return Ok(found),
            }
        }
    }
}

/// Returns true if another claim is in force. The store's own clock determines its age.
fn others_of(claims: &[ObjectMeta], own: &Path) -> bool {
    let now = claims.iter().find(|claim| claim.location == *own).map(|claim| claim.last_modified);
    claims
        .iter()
        .filter(|claim| claim.location != *own)
        .any(|claim| now.is_none_or(|now| (now - claim.last_modified).num_seconds() < STALE_S))
}
