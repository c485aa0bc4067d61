//! What may be wanting when beanstalkd's clients are told OUT_OF_MEMORY, one word for much: a reason must be there that what was
//! asked can be refused for.

use super::Schedule;
use super::farewell::Farewell;
use crate::clients::Ask;
use crate::ledger::When;

/// What beanstalkd's clients are told when anything is wanting.
pub(super) const OUT_OF_MEMORY: &str = "OUT_OF_MEMORY";

/// Something of which there is too little.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Want {
    Disk,
    Memory,
    Queues,
    Holds,
}

impl Want {
    const ALL: [Want; 4] = [Want::Disk, Want::Memory, Want::Queues, Want::Holds];

    /// Whether this can be refused for it: because it writes, takes memory, names a queue, or holds a job.
    fn concerns(self, ask: &Ask) -> bool {
        let names = matches!(ask, Ask::Use(_) | Ask::Watch(_));
        let takes = matches!(ask, Ask::Take { .. });
        // Whoever asks for one job never waits for it, which is what takes memory.
        let takes_this = matches!(ask, Ask::TakeThis(_));
        let moves = matches!(ask, Ask::PutBack { .. } | Ask::Bury { .. } | Ask::Kick { .. } | Ask::KickJob(_));
        let shows =
            matches!(ask, Ask::Peek(_) | Ask::PeekNext { .. } | Ask::State(_) | Ask::Queues | Ask::Origins { .. });
        let puts = matches!(ask, Ask::Put(_));
        // What makes no sense may be refused before that is seen.
        if matches!(ask, Ask::Nonsense(_)) {
            return self != Want::Holds;
        }
        match self {
            Want::Disk => puts || takes || takes_this || moves,
            Want::Memory => puts || takes || moves || names || shows,
            Want::Queues => names,
            Want::Holds => takes || takes_this,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Want::Disk => "room on the disk",
            Want::Memory => "memory",
            Want::Queues => "room for a queue",
            Want::Holds => "leave to hold a job more",
        }
    }
}

impl Schedule {
    /// Whether someone may be told that this cannot be had. Where there is but one reason, it is counted.
    pub(super) fn may_be_wanting(&mut self, index: usize, ask: &Ask, asked: When) -> bool {
        let who = &self.people[index];
        let (took, speaker) = (who.took, who.speaker);
        let is_wanting = |want: &Want| match want {
            Want::Disk => self.may_want_room(asked) || self.may_not_fit(ask),
            Want::Memory => self.is_short_of_memory(),
            Want::Queues => self.may_name_new_queues(ask, asked),
            Want::Holds => self.lacks_holds() && took >= self.world.setup().config.limits.held_max,
        };
        let reasons: Vec<Want> = Want::ALL.into_iter().filter(|want| want.concerns(ask)).filter(is_wanting).collect();
        if let [only] = reasons[..]
            && let Some((_, label)) = (speaker.say)(ask, 0)
        {
            self.count(&format!("{label} refused for want of {}", only.words()), 1);
        }
        !reasons.is_empty()
    }
}

impl Farewell {
    /// Why a client of beanstalkd hears that, which is told the same for each reason.
    pub(super) fn reason(self) -> &'static str {
        match self {
            Farewell::Silent => "silence",
            Farewell::TooManyClients => "too many clients",
            Farewell::TooMuchInput | Farewell::TooMuchUndecided => "too much input",
        }
    }
}
