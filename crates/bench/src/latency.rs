//! How long single operations take.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Each power of two is cut into this many equal steps, so a figure is at most 1/32 off.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = ((64 - STEP_BITS as usize) + 1) * STEPS as usize;

/// Counts of durations in nanoseconds, in buckets whose width grows with the duration.
#[derive(Clone)]
pub(crate) struct Histogram {
    counts: Box<[u64]>,
    total: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), total: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, nanoseconds: u64) {
        self.counts[bucket(nanoseconds)] += 1;
        self.total += 1;
    }

    pub(crate) fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
    }

    /// The duration in nanoseconds that the given part (0 to 1) of all operations did not
    /// exceed; 0 when nothing was recorded.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let wanted = ((self.total as f64 * part).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, &count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted {
                return middle(index);
            }
        }
        0.0
    }
}

fn bucket(value: u64) -> usize {
    if value < STEPS {
        return value as usize;
    }
    let exponent = value.ilog2() - STEP_BITS;
    (u64::from(exponent) * STEPS + (value >> exponent)) as usize
}

fn middle(bucket: usize) -> f64 {
    let bucket = bucket as u64;
    if bucket < 2 * STEPS {
        return bucket as f64;
    }
    let exponent = bucket / STEPS - 1;
    let low = (bucket % STEPS + STEPS) << exponent;
    low as f64 + ((1u64 << exponent) - 1) as f64 / 2.0
}

/// Sees every operation of a workload. Workloads are compiled once for each recorder, so the
/// pass that measures throughput holds no trace of the one that measures latency.
pub(crate) trait Recorder: Send {
    /// Carries out one operation.
    fn operation<T>(&mut self, work: impl FnOnce() -> T) -> T;
}

/// For throughput: just does the work.
pub(crate) struct Untimed;

impl Recorder for Untimed {
    #[inline(always)]
    fn operation<T>(&mut self, work: impl FnOnce() -> T) -> T {
        work()
    }
}

/// For latency: reads the clock before and after every operation and takes off what reading it
/// costs.
pub(crate) struct Timed {
    histogram: Histogram,
    overhead: u64,
}

impl Timed {
    pub(crate) fn new(overhead: Duration) -> Self {
        Timed { histogram: Histogram::new(), overhead: overhead.as_nanos() as u64 }
    }

    pub(crate) fn into_histogram(self) -> Histogram {
        self.histogram
    }
}

impl Recorder for Timed {
    #[inline(always)]
    fn operation<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = work();
        let taken = start.elapsed().as_nanos() as u64;
        // Never 0: an operation that the clock cannot see took something.
        self.histogram.record(taken.saturating_sub(self.overhead).max(1));
        result
    }
}

/// What the clock says of an empty operation: the median of many.
pub(crate) fn clock_overhead() -> Duration {
    let mut empty = Timed::new(Duration::ZERO);
    for number in 0..10_000 {
        empty.operation(|| black_box(number));
    }
    Duration::from_nanos(empty.histogram.quantile(0.5) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_falls_into_a_bucket_near_it() {
        for value in (0..100_000).chain((0..64).map(|bit| 1 << bit)).chain([u64::MAX]) {
            let bucket = bucket(value);
            assert!(bucket < BUCKETS);
            assert!((middle(bucket) - value as f64).abs() <= value as f64 / STEPS as f64);
        }
        for value in 1..100_000 {
            assert!(bucket(value) - bucket(value - 1) <= 1, "no bucket is left out");
        }
    }

    #[test]
    fn quantiles_of_merged_threads() {
        let (mut one, mut two) = (Histogram::new(), Histogram::new());
        (1..=50).for_each(|value| one.record(value));
        (51..=100).for_each(|value| two.record(value));
        one.merge(&two);
        assert!((one.quantile(0.5) - 50.0).abs() <= 1.0);
        assert!((one.quantile(0.99) - 99.0).abs() <= 2.0);
        assert!((one.quantile(1.0) - 100.0).abs() <= 2.0);
        assert_eq!(Histogram::new().quantile(0.5), 0.0);
    }
}
