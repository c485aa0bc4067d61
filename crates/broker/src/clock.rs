//! Engine time, made from the machine's clocks and the log's last batch; and the dice.

use jobyard_engine::Now;
use jobyard_log::Moment;

use crate::event::Clock;

/// Turns the machine's clocks into engine time.
#[derive(Debug)]
pub(crate) struct EngineClock {
    base_ms: u64,
    opened_monotonic_ms: u64,
    last_ms: u64,
    dice: SplitMix64,
}

impl EngineClock {
    /// Goes on where the last batch was, and adds the time that the server was down. Within one boot the machine's own clock
    /// tells it; else the wall clock does, as well as it can: one that was set back while the machine was down adds nothing.
    pub(crate) fn new(last: Option<Moment>, clock: Clock, seed: u64) -> Self {
        let base_ms = last.map_or(0, |last| last.engine_ms.saturating_add(down_ms(last, clock)));
        EngineClock { base_ms, opened_monotonic_ms: clock.monotonic_ms, last_ms: base_ms, dice: SplitMix64(seed) }
    }

    /// What time it is. Engine time never goes back, even if what should be monotonic did. The dice are for each call into the
    /// engine to roll: what is left to chance must not depend on how many turns a client's input took.
    pub(crate) fn now(&mut self, clock: Clock) -> Now {
        let passed_ms = clock.monotonic_ms.saturating_sub(self.opened_monotonic_ms);
        self.last_ms = self.last_ms.max(self.base_ms.saturating_add(passed_ms));
        Now { engine_ms: self.last_ms, wall_ms: clock.wall_ms, random: 0 }
    }

    /// A uniformly random number.
    pub(crate) fn roll(&mut self) -> u64 {
        self.dice.roll()
    }
}

/// For how long the server was down.
fn down_ms(last: Moment, clock: Clock) -> u64 {
    let same_boot = clock.boot != 0 && clock.boot == last.boot;
    let by_boot_ms = clock.monotonic_ms.checked_sub(last.boot_ms).filter(|_| same_boot);
    let by_wall_ms = clock.wall_ms.saturating_sub(last.wall_ms);
    if crate::broken("broker-time-from-clock-set-back") {
        return by_boot_ms.unwrap_or(by_wall_ms.unsigned_abs());
    }
    by_boot_ms.unwrap_or_else(|| u64::try_from(by_wall_ms).unwrap_or(0))
}

/// A small generator whose every seed is good (Steele, Lea and Flood, 2014).
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAST: Moment = Moment { engine_ms: 100, wall_ms: 1_000, boot_ms: 50_000, boot: 7 };

    fn clock(monotonic_ms: u64, wall_ms: i64) -> Clock {
        Clock { monotonic_ms, boot: 0, wall_ms }
    }

    #[test]
    fn engine_time_follows_the_monotonic_clock_only() {
        let mut time = EngineClock::new(None, clock(700, 1_000_000), 1);
        assert_eq!(time.now(clock(700, 1_000_000)).engine_ms, 0);
        let now = time.now(clock(750, 5));
        assert_eq!((now.engine_ms, now.wall_ms), (50, 5));
    }

    #[test]
    fn engine_time_never_goes_back() {
        let mut time = EngineClock::new(None, clock(700, 0), 1);
        assert_eq!(time.now(clock(800, 0)).engine_ms, 100);
        assert_eq!(time.now(clock(750, 0)).engine_ms, 100);
    }

    #[test]
    fn a_start_adds_the_time_the_server_was_down() {
        assert_eq!(EngineClock::new(Some(LAST), clock(0, 1_500), 1).now(clock(7, 0)).engine_ms, 607);
    }

    #[test]
    fn a_wall_clock_set_back_while_the_machine_was_down_adds_nothing() {
        assert_eq!(EngineClock::new(Some(LAST), clock(0, -5), 1).now(clock(0, -5)).engine_ms, 100);
    }

    #[test]
    fn within_one_boot_a_stepped_wall_clock_changes_nothing() {
        for wall_ms in [1_200, -5, i64::MAX, i64::MIN] {
            let clock = Clock { monotonic_ms: 50_200, boot: 7, wall_ms };
            assert_eq!(EngineClock::new(Some(LAST), clock, 1).now(clock).engine_ms, 300, "{wall_ms}");
        }
        let booted_again = Clock { monotonic_ms: 50_200, boot: 8, wall_ms: 1_500 };
        assert_eq!(EngineClock::new(Some(LAST), booted_again, 1).now(booted_again).engine_ms, 600);
    }

    #[test]
    fn the_dice_follow_the_published_sequence() {
        let mut dice = SplitMix64(1_234_567);
        let rolls = [dice.roll(), dice.roll(), dice.roll()];
        assert_eq!(rolls, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }
}
