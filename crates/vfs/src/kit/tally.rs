//! How often things are done, and how long they take.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_utils::CachePadded;

use crate::clock::Clock;
use crate::sharded::{MAX_SHARDS, shard_index};

/// Buckets of a histogram: bucket `i` counts calls of less than 2^i nanoseconds, the last one
/// (over a minute) all longer ones too.
const BUCKETS: usize = 37;

/// Counts calls of a number of operations, and how long they take: per group of threads, so that
/// counting adds no word that all threads write. One call costs two looks at the clock.
pub struct Tally {
    names: &'static [&'static str],
    shards: [CachePadded<Box<[Counter]>>; MAX_SHARDS],
}

struct Counter {
    errors: AtomicU64,
    nanoseconds: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

impl Tally {
    /// For operations of these names, which are numbered in this order.
    pub fn new(names: &'static [&'static str]) -> Self {
        let counter = || Counter {
            errors: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
        };
        Tally {
            names,
            shards: std::array::from_fn(|_| {
                CachePadded::new(names.iter().map(|_| counter()).collect())
            }),
        }
    }

    /// Makes a call of an operation and counts it.
    ///
    /// # Panics
    /// For a number that no operation has.
    #[inline]
    pub fn time<T, E>(
        &self,
        operation: usize,
        call: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let elapsed = Clock::current().elapsed;
        let start = elapsed();
        let answer = call();
        let taken = elapsed().saturating_sub(start);
        let nanoseconds = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
        let counter = &self.shards[shard_index()][operation];
        // Relaxed: these are numbers to be looked at, nothing is ordered by them.
        let bucket = (u64::BITS - nanoseconds.leading_zeros()) as usize;
        counter.buckets[bucket.min(BUCKETS - 1)].fetch_add(1, Ordering::Relaxed);
        counter.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if answer.is_err() {
            counter.errors.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    /// What was counted so far. Calls under way may or may not be in it.
    pub fn snapshot(&self) -> Trace {
        let rows = self.names.iter().enumerate().map(|(i, &operation)| {
            let counters = self.shards.iter().map(|shard| &shard[i]);
            let mut buckets = [0; BUCKETS];
            let (mut errors, mut nanoseconds) = (0, 0);
            for counter in counters {
                errors += counter.errors.load(Ordering::Relaxed);
                nanoseconds += counter.nanoseconds.load(Ordering::Relaxed);
                for (sum, bucket) in buckets.iter_mut().zip(&counter.buckets) {
                    *sum += bucket.load(Ordering::Relaxed);
                }
            }
            TraceRow {
                operation,
                calls: buckets.iter().sum(),
                errors,
                total: Duration::from_nanos(nanoseconds),
                p50: percentile(&buckets, 50),
                p99: percentile(&buckets, 99),
            }
        });
        Trace { rows: rows.filter(|row| row.calls > 0).collect() }
    }
}

/// What a [`Tally`] has counted so far. Shown, it is a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// One row for each operation that was called.
    pub rows: Vec<TraceRow>,
}

/// The calls of one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TraceRow {
    /// Its name: a method of [`FileSystem`](crate::FileSystem), or `node.` and one of
    /// [`NodeSystem`](crate::NodeSystem), or `file.` and one of [`File`](crate::File).
    pub operation: &'static str,
    /// How often it was called.
    pub calls: u64,
    /// How often it answered an error.
    pub errors: u64,
    /// Time spent in it, all threads together.
    pub total: Duration,
    /// Half of the calls took less than this power of two of nanoseconds.
    pub p50: Duration,
    /// 99 of 100 calls took less than this power of two of nanoseconds.
    pub p99: Duration,
}

/// The upper end of the bucket in which this part of all calls is reached.
fn percentile(buckets: &[u64; BUCKETS], percent: u64) -> Duration {
    let calls: u64 = buckets.iter().sum();
    let wanted = (calls * percent).div_ceil(100);
    let mut seen = 0;
    for (i, count) in buckets.iter().enumerate() {
        seen += count;
        if seen >= wanted {
            return Duration::from_nanos(1 << i);
        }
    }
    Duration::from_nanos(1 << (BUCKETS - 1))
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<18} {:>10} {:>8} {:>12} {:>10} {:>10}",
            "operation", "calls", "errors", "total", "p50 <", "p99 <"
        )?;
        for row in &self.rows {
            writeln!(
                f,
                "{:<18} {:>10} {:>8} {:>12} {:>10} {:>10}",
                row.operation,
                row.calls,
                row.errors,
                format!("{:.1?}", row.total),
                format!("{:.1?}", row.p50),
                format!("{:.1?}", row.p99),
            )?;
        }
        Ok(())
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tally").field("names", &self.names).finish_non_exhaustive()
    }
}
