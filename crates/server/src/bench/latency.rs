//! How long requests took: a histogram whose buckets grow with the time, so that every figure is right to 1 %: the layout of an HDR histogram.

/// Each doubling of the time is cut into this many buckets.
const STEPS: u64 = 1 << STEP_BITS;
const STEP_BITS: u32 = 7;

/// Times in nanoseconds.
#[derive(Debug)]
pub struct Latencies {
    buckets: Vec<u64>,
    count: u64,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Latencies {
        Latencies { buckets: vec![0; bucket(u64::MAX) + 1], count: 0 }
    }

    /// Adds one.
    pub fn record(&mut self, nanos: u64) {
        self.buckets[bucket(nanos)] += 1;
        self.count += 1;
    }

    /// The time within which this share of all requests was answered; 0 if there were none.
    pub fn quantile(&self, share: f64) -> u64 {
        let mut left = share * self.count as f64;
        for (index, &count) in self.buckets.iter().enumerate() {
            left -= count as f64;
            if count > 0 && left <= 0.0 {
                return longest(index);
            }
        }
        0
    }
}

/// The bucket of a time. Up to twice `STEPS` nanoseconds each has its own.
fn bucket(nanos: u64) -> usize {
    let doublings = (u64::BITS - nanos.leading_zeros()).saturating_sub(STEP_BITS + 1);
    let index = u64::from(doublings) * STEPS + (nanos >> doublings);
    usize::try_from(index).expect("there are fewer than 64 times STEPS buckets")
}

/// The longest time in a bucket.
fn longest(index: usize) -> u64 {
    let index = index as u64;
    let doublings = (index / STEPS).saturating_sub(1);
    let step = index - doublings * STEPS;
    // In this order, or the last bucket's would overflow.
    (step << doublings) + ((1 << doublings) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_on_each_other_and_are_narrow() {
        let mut expected = 0;
        for index in 0..=bucket(u64::MAX) {
            let last = longest(index);
            assert_eq!(bucket(expected), index);
            assert_eq!(bucket(last), index);
            assert!(last - expected <= expected / STEPS, "{expected} to {last}");
            expected = last.wrapping_add(1);
        }
        assert_eq!(expected, 0, "the last bucket ends with the largest number");
    }

    #[test]
    fn a_quantile_is_the_time_that_so_many_stayed_within() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.quantile(0.5), 0);
        for nanos in 1..=10_000 {
            latencies.record(nanos);
        }
        for (share, nanos) in [(0.5, 5_000), (0.99, 9_900), (1.0, 10_000)] {
            let found = latencies.quantile(share);
            assert!(found >= nanos && found <= nanos + nanos / STEPS, "{share}: {found}");
        }
        assert_eq!(latencies.quantile(0.001), 10);
    }

    #[test]
    fn one_slow_request_of_a_hundred_shows_only_above_its_share() {
        let mut latencies = Latencies::new();
        for _ in 0..99 {
            latencies.record(50);
        }
        latencies.record(1_000_000_000);
        assert_eq!(latencies.quantile(0.99), 50);
        assert!(latencies.quantile(1.0) >= 1_000_000_000);
    }
}
