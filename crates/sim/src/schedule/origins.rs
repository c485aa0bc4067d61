//! Where jobs of beanstalkd's clients were before: none comes twice from there until that is closed, whatever befalls the server.

use super::Schedule;
use crate::clients::{Ask, BEANSTALKD, Put};
use crate::ledger::When;
use crate::world::Wrong;

/// What is known of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Open,
    Closed,
    /// Nobody has heard what came of the last that was asked.
    Nothing,
}

/// One of a few origins.
#[derive(Clone, Copy, Debug)]
struct Origin {
    known: Known,
    /// Since this turn.
    since: u64,
    /// Whether someone asks something of it, and was not answered: one at a time.
    asked: bool,
}

/// All of them.
#[derive(Debug)]
pub struct Origins([Origin; 4]);

/// What is said to those who bring jobs from where they may not: they have not claimed it, or another has.
const NOT_CLAIMED: &str = "NOT_CLAIMED";
const TAKEN: &str = "TAKEN";
/// What is said of an origin that is open, and of one that is not.
const OPEN: &str = "OPEN";
const NOT_FOUND: &str = "NOT_FOUND";

impl Origins {
    pub fn new() -> Self {
        Origins([Origin { known: Known::Closed, since: 0, asked: false }; 4])
    }

    /// Nobody asks anything of this one.
    fn free(&self, from: usize) -> Option<usize> {
        (0..self.0.len()).map(|index| (from + index) % self.0.len()).find(|&index| !self.0[index].asked)
    }

    /// Whether this could be open, or closed.
    fn may_be(&self, index: usize, known: Known) -> bool {
        [known, Known::Nothing].contains(&self.0[index].known)
    }
}

/// What an origin is called.
fn name_of(index: usize) -> String {
    format!("o/{index}")
}

/// The origin that something is asked of.
fn subject(ask: &Ask) -> Option<usize> {
    match ask {
        Ask::Put(put) => put.origin,
        Ask::CloseOrigin(origin) => Some(*origin),
        _ => None,
    }
}

impl Schedule {
    /// The same job, brought from elsewhere by those who can, where it may have been put aside.
    pub(super) fn bring(&mut self, put: Put) -> Put {
        let origin = if self.one_in(3) { self.some_origin() } else { None };
        Put { origin, aside: origin.is_some() && self.one_in(3), ..put }
    }

    /// An origin of which something can be asked.
    pub(super) fn some_origin(&mut self) -> Option<usize> {
        let from = self.below(self.origins.0.len());
        self.origins.free(from)
    }

    pub(super) fn note_asked_of_origin(&mut self, ask: &Ask) {
        if let Some(index) = subject(ask) {
            self.origins.0[index].asked = true;
        }
    }

    /// Who brings jobs from elsewhere says so first. Another may have done so before.
    pub(super) fn claim_first(&mut self, who: usize, ask: Ask) -> Ask {
        let is_tubes = self.people[who].speaker.protocol == BEANSTALKD;
        let is_needed = is_tubes && subject(&ask).is_some() && !self.people[who].claims;
        if is_needed && !self.one_in(20) { Ask::ClaimOrigins } else { ask }
    }

    /// What was asked was done: a job came from there, or it was closed.
    pub(super) fn note_done_with_origin(&mut self, who: usize, ask: &Ask, when: When) -> Result<(), Wrong> {
        let Some(index) = subject(ask) else { return Ok(()) };
        if !self.people[who].claims {
            return Err(format!("{:?} was told that {ask:?} was done, and has claimed nothing", self.people[who]));
        }
        let (was, is) = match ask {
            Ask::CloseOrigin(_) => (Known::Open, Known::Closed),
            _ => (Known::Closed, Known::Open),
        };
        if !self.origins.may_be(index, was) {
            return Err(format!("{ask:?} was done, and the origin was {:?}", self.origins.0[index]));
        }
        self.count("checked: an origin was open or closed", 1);
        self.origins.0[index] = Origin { known: is, since: when.turn, asked: false };
        Ok(())
    }

    /// What was asked was not done.
    pub(super) fn note_refused_of_origin(
        &mut self,
        who: usize,
        ask: &Ask,
        words: &str,
        when: When,
    ) -> Result<(), Wrong> {
        if [NOT_CLAIMED, TAKEN].contains(&words) && self.people[who].claims {
            return Err(format!("{:?} has claimed all origins, asked {ask:?}, and was told {words}", self.people[who]));
        }
        let Some(index) = subject(ask) else { return Ok(()) };
        self.origins.0[index].asked = false;
        let is = match words {
            OPEN => Known::Open,
            NOT_FOUND => Known::Closed,
            _ => return Ok(()),
        };
        if !self.origins.may_be(index, is) {
            return Err(format!("{ask:?} was refused with {words}, and the origin was {:?}", self.origins.0[index]));
        }
        self.count("checked: an origin is still open, or closed", 1);
        self.origins.0[index] = Origin { known: is, since: when.turn, asked: false };
        Ok(())
    }

    /// Nobody will hear what came of it. What cannot have changed anything has not.
    pub(super) fn lose_origin(&mut self, ask: &Ask) {
        let Some(index) = subject(ask) else { return };
        let unchanged = if matches!(ask, Ask::CloseOrigin(_)) { Known::Closed } else { Known::Open };
        let origin = &mut self.origins.0[index];
        origin.asked = false;
        if origin.known != unchanged {
            origin.known = Known::Nothing;
        }
    }

    /// Those behind one, or all, that are said to be open are, and no others, as far as that was known when it was asked; in
    /// their order.
    pub(super) fn check_origins(&mut self, after: Option<usize>, names: &[String], asked: When) -> Result<(), Wrong> {
        let behind = after.map_or(0, |after| after + 1)..self.origins.0.len();
        let places = names.iter().map(|name| behind.clone().position(|index| *name == name_of(index)));
        if !places.clone().all(|place| place.is_some()) || !places.is_sorted_by(|one, next| one < next) {
            return Err(format!("of the origins behind {after:?} are listed {names:?}"));
        }
        let is_known = |origin: &Origin| !origin.asked && origin.since < asked.turn;
        let known = self.origins.0.iter().enumerate().filter(|(index, _)| behind.contains(index));
        for (index, origin) in known.filter(|(_, origin)| is_known(origin)) {
            let is_listed = names.contains(&name_of(index));
            if origin.known == if is_listed { Known::Closed } else { Known::Open } {
                return Err(format!("origin {index} is {origin:?}, and listed are {names:?}"));
            }
        }
        self.count("checked: origins are listed rightly", u64::from(after.is_none()));
        self.count("checked: origins behind one are listed rightly", u64::from(after.is_some()));
        Ok(())
    }
}
