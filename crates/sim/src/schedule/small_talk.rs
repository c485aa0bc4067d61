//! What clients of Redis hear beside their work: what they have said of themselves, which connection theirs is, how many there are.

use super::Schedule;
use crate::clients::{Ask, Heard, Number, Session, TALKS};
use crate::world::Wrong;

/// What a client of Redis knows of its connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    session: Session,
    /// Its number, if it was told.
    id: Option<u64>,
}

impl Schedule {
    /// Something of that kind. Some say much of it at once, when they begin.
    pub(super) fn talk(&mut self, index: usize) -> Ask {
        for _ in 0..self.below(8) {
            let kind = self.below(TALKS.len());
            self.ask(index, Ask::SmallTalk(kind));
        }
        Ask::SmallTalk(self.below(TALKS.len()))
    }

    /// A client was answered as it must be.
    pub(super) fn check_small_talk(&mut self, index: usize, kind: usize, heard: &Heard) -> Result<(), Wrong> {
        let Heard::Facts(said) = heard else { return Ok(()) };
        let mut known = self.people[index].redis;
        let number = TALKS[kind].hears(&mut known.session, &said.concat());
        let number = number.map_err(|wrong| format!("{:?} was told {wrong}", self.people[index]))?;
        match number {
            Number::Id(id) => {
                let is_anothers = self
                    .people
                    .iter()
                    .any(|other| other.client != self.people[index].client && other.redis.id == Some(id));
                if is_anothers || known.id.is_some_and(|before| before != id) {
                    return Err(format!(
                        "{:?} has number {id}, and another has, or it had another",
                        self.people[index]
                    ));
                }
                self.count("checked: a connection has its number", u64::from(known.id.is_some()));
                known.id = Some(id);
            }
            Number::Clients(clients) => {
                let came = self.world.started().1;
                if clients == 0 || clients > came {
                    return Err(format!("{clients} clients are said to be there, of {came} that came"));
                }
                self.count("checked: no more clients are there than came", 1);
            }
            Number::None => {}
        }
        self.people[index].redis = known;
        Ok(())
    }
}
