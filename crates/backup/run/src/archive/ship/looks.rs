//! Sets of a database without a log.

use std::sync::Arc;

use tdekit_backup_media::FullPlace;
use tdekit_sqlite_page::RESERVE_LEN;

use super::lost::Made;
use super::{Shipper, link_behind};
use crate::RunError;
use crate::archive::batch::{LogBatch, Origin};
use crate::archive::chain::Point;
use crate::archive::follow::{Event, Why};
use crate::archive::looks::{Differing, Look, Looks, Moment};
use crate::archive::state::{FileStamp, Intent, Shipped, State};
use crate::backup::Begun;
use crate::output::lock;

impl Shipper<'_> {
    /// Goes on with the chain, if the database is as it was shipped. Returns why it cannot.
    pub(in crate::archive) fn resume_looks(
        &mut self,
        looks: &mut Looks,
    ) -> Result<Option<Why>, RunError> {
        let State { shipped, clean, .. } = &self.file.state;
        match shipped {
            Some(shipped) => looks.resume(shipped, *clean),
            None => Ok(Some(Why::Absence)),
        }
    }

    /// Reads the database and ships what differs. Returns why no log set can follow.
    pub(in crate::archive) fn ship_differing(
        &mut self,
        looks: &mut Looks,
        tell: &mut dyn FnMut(Event),
    ) -> Result<Option<Why>, RunError> {
        let last_ms = self.file.state.shipped.as_ref().map_or(0, |it| it.time_ms);
        let facts = match looks.look(last_ms)? {
            Look::Ends(why) => return Ok(Some(why)),
            Look::Same(facts) => facts,
            Look::Differs(differing) => {
                let (facts, size) = (differing.facts, differing.transaction.size);
                let Some((end, bytes)) = self.ship_transaction(looks, &differing)? else {
                    return Ok(Some(Why::Archive));
                };
                looks.shipped(size, differing.into_prints(), facts);
                tell(Event::Log { end, bytes });
                facts
            }
        };
        self.is_shipped_as(facts.stamp)?;
        self.is_current(facts.time_ms);
        Ok(None)
    }

    /// Ships what differs. Returns nothing if the set of a look before is in its place, whose pages
    /// nobody knows any more.
    fn ship_transaction(
        &mut self,
        looks: &Looks,
        differing: &Differing,
    ) -> Result<Option<(Point, u64)>, RunError> {
        let Some(before) = self.file.state.shipped.clone() else {
            return Err(RunError::Internal("a log set without a chain"));
        };
        let Differing { transaction, snapshot, .. } = differing;
        let (link, page_size, time_ms) =
            (link_behind(&before, 1)?, before.page_size, transaction.time_ms);
        lock(&self.known).begin(link.before.set_id, page_size);
        let batch = LogBatch {
            origin: snapshot.clone().map_or(Origin::Memory, Origin::Main),
            known: Arc::clone(&self.known),
            transactions: vec![Arc::clone(transaction)],
            link,
            page_size,
            zeroed: if looks.encrypted_file_id().is_some() { RESERVE_LEN } else { 0 },
            encrypted_file_id: looks.encrypted_file_id(),
        };
        let then = Shipped { number: link.number, time_ms, ..before };
        let intent = Intent { begun_ms: time_ms, transactions: 1, then };
        let check = || snapshot.as_ref().map_or(Ok(()), |snapshot| snapshot.check());
        let place = self.place(None)?;
        let made = self.publish(intent, Begun::Log(Box::new(batch), place), Some(&check))?;
        let Made::This { bytes } = made else { return Ok(None) };
        Ok(Some((Point { number: link.number, transaction: 1, time_ms }, bytes)))
    }

    /// Begins a new chain with a full set.
    pub(in crate::archive) fn begin_chain_of(
        &mut self,
        looks: &mut Looks,
        why: &Why,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        self.described(why, |shipper| shipper.begin_behind_looks(looks, tell))
    }

    fn begin_behind_looks(
        &mut self,
        looks: &mut Looks,
        tell: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let (last_ms, behind) = self.end_before()?;
        let Moment { mut snapshot, facts } = looks.begin(last_ms)?;
        let learnt = looks.learn(&mut snapshot);
        let (number, time_ms) = (self.last.saturating_add(1), facts.time_ms);
        let (pages, page_size) = (snapshot.pages(), snapshot.page_size());
        let then = Shipped {
            number,
            first: number,
            time_ms,
            snapshot_ms: time_ms,
            page_size,
            file: looks.file(),
            ..Shipped::default()
        };
        self.file.state.ground = None;
        let intent = Intent { begun_ms: time_ms, transactions: 0, then };
        let place = self.place(Some(FullPlace { number, behind }))?;
        let from = Begun::Snapshot(Box::new(snapshot), time_ms, place);
        let Made::This { bytes } = self.publish(intent, from, None)? else {
            return self.begin_behind_looks(looks, tell);
        };
        looks.know(learnt, facts)?;
        self.is_shipped_as(facts.stamp)?;
        self.is_current(time_ms);
        tell(Event::Full { number, bytes, pages: pages.into() });
        Ok(())
    }

    /// Records that the archive has the file with this stamp. A record that was not written then
    /// names an older stamp, which no later file has.
    fn is_shipped_as(&mut self, stamp: FileStamp) -> Result<(), RunError> {
        if self.file.state.clean == Some(stamp) {
            return Ok(());
        }
        self.file.state.clean = Some(stamp);
        self.file.write()
    }
}
