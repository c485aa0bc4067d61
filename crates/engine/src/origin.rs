//! Jobs that were elsewhere before, and may still be there: where they came from is open until it is closed. One client at a
//! time brings jobs from one place.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::broken;
use crate::command::OwnTime;
use crate::engine::{Answers, Engine};
use crate::hash::ByNumber;
use crate::job::{Rare, State};
use crate::names::{ClientId, JobNumber};
use crate::record::Record;
use crate::reply::{Refusal, Reply};
use crate::store::Store;

/// Which client brings jobs from where: from origins that begin so. Not durable: it ends with its client.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    by_client: HashMap<ClientId, Box<[u8]>, ByNumber>,
    by_beginning: BTreeMap<Box<[u8]>, ClientId>,
    bytes: usize,
}

impl Claims {
    /// The client claims all origins that begin so, and no others; unless another client claims some of these.
    fn claim(&mut self, client: ClientId, beginning: &[u8]) -> Result<(), Refusal> {
        let is_anothers = |holder: &ClientId| *holder != client;
        let shorter = (0..beginning.len()).any(|end| self.by_beginning.get(&beginning[..end]).is_some_and(is_anothers));
        let from_here = (Bound::Included(beginning), Bound::Unbounded);
        let mut longer =
            self.by_beginning.range::<[u8], _>(from_here).take_while(|(other, _)| other.starts_with(beginning));
        if shorter || longer.any(|(_, holder)| is_anothers(holder)) {
            return Err(Refusal::OriginsClaimed);
        }
        self.end(client);
        self.bytes += beginning.len();
        self.by_client.insert(client, beginning.into());
        self.by_beginning.insert(beginning.into(), client);
        Ok(())
    }

    /// The client claims nothing any more.
    pub(crate) fn end(&mut self, client: ClientId) {
        if let Some(beginning) = self.by_client.remove(&client) {
            self.bytes -= beginning.len();
            self.by_beginning.remove(&beginning);
        }
    }

    /// Whether this client may say something of an origin.
    pub(crate) fn check(&self, client: ClientId, origin: &[u8]) -> Result<(), Refusal> {
        let is_claimed = self.by_client.get(&client).is_some_and(|beginning| origin.starts_with(beginning));
        if is_claimed || broken("engine-claim-ignored") { Ok(()) } else { Err(Refusal::OriginNotClaimed) }
    }

    /// The memory that claims take.
    pub(crate) fn memory_bytes(&self) -> usize {
        const EACH: usize = 256;
        self.by_client.len() * EACH + 2 * self.bytes
    }
}

impl Engine {
    pub(crate) fn handle_claim_origins(&mut self, client: ClientId, beginning: &[u8], answers: &mut Answers<'_>) {
        let claimed = self.store.claims.claim(client, beginning);
        answers(client, claimed.map_or_else(Reply::Refused, |()| Reply::Done));
    }

    pub(crate) fn handle_close_origin(&mut self, client: ClientId, origin: &[u8], answers: &mut Answers<'_>) {
        let claimed = self.store.claims.check(client, origin);
        let open = self.store.origins.get(origin).copied().ok_or(Refusal::NoSuchOrigin);
        let reply = match claimed.and(open) {
            Ok(number) => {
                self.commit(Record::OriginClosed { number });
                Reply::Done
            }
            Err(refusal) => Reply::Refused(refusal),
        };
        answers(client, reply);
    }

    /// Some of the origins that are open: those behind this one.
    pub(crate) fn open_origins(&self, after: &[u8], count_max: usize) -> Vec<&[u8]> {
        let after = if broken("engine-origins-from-the-first") { b"" } else { after };
        let behind = (Bound::Excluded(after), Bound::Unbounded);
        self.store.origins.range::<[u8], _>(behind).map(|(origin, _)| &**origin).take(count_max).collect()
    }
}

impl Store {
    /// All that is left of a job is where it came from, and where that was written.
    pub(crate) fn empty(&mut self, number: JobNumber) {
        self.unblock_at_once(number);
        self.set_expiry(number, None);
        if let Some(uuid) = self.job(number).rare.as_deref().and_then(|rare| rare.uuid) {
            self.uuids.remove(&uuid);
        }
        self.rearrange(number, |job| {
            let origin = job.rare_mut().origin.take();
            job.rare = Some(Box::new(Rare { origin, ..Rare::default() }));
            (job.body, job.urgency, job.own_time) = (Box::default(), 0, OwnTime::None);
            job.state = State::Done;
        });
    }

    /// Where a job came from no longer has it. If nothing else was left of the job, it goes.
    pub(crate) fn apply_origin_closed(&mut self, number: JobNumber) {
        if self.job(number).is_over() {
            self.take(number);
        } else if let Some(origin) = self.jobs.change(number, |job| job.rare_mut().origin.take()) {
            self.origins.remove(&origin);
        }
    }

    /// How many jobs are gone, and only their origins are left.
    pub(crate) fn over_count(&self) -> usize {
        self.origins.values().filter(|&&number| self.job(number).is_over()).count()
    }
}
