//! Measuring one workload on one contestant.
//!
//! 1. A trial of a few operations finds out whether a whole round would take too long; if so,
//!    less than a round is measured (an operation a second is as well known after three).
//! 2. One round to warm up. Where rounds can be repeated, as many are done in one go as last
//!    100 ms (less at small scales), the same number for each thread.
//! 3. The timed iterations, without a clock inside. Threads start together; the time runs from
//!    the first start to the last end, and the iteration with the median time is kept.
//! 4. One more iteration in which each operation is timed, for the latencies alone: reading a
//!    clock twice takes longer than the fastest operations here.
//!
//! In a cold run the contestant is made anew and the data dropped from the page cache before
//! each iteration, there is no warm-up, and an iteration is one round.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::contestant::Contestant;
use crate::latency::{Histogram, Recorder, Timed, Untimed};
use crate::workload::Workload;

/// How to measure; the same for all contestants.
pub(crate) struct Rules<'a> {
    pub(crate) iterations: usize,
    /// An iteration lasts at least so long, where rounds can be repeated.
    pub(crate) shortest: Duration,
    /// A round that would last longer is cut.
    pub(crate) longest: Duration,
    /// What reading the clock costs.
    pub(crate) clock: Duration,
    /// Drops the data from the page cache; `None` in a warm run.
    pub(crate) chill: Option<&'a dyn Fn() -> io::Result<()>>,
    /// Waits for the disk before iterations that write; `None` for those that only read.
    pub(crate) settle: Option<&'a dyn Fn() -> io::Result<()>>,
}

/// What was measured.
pub(crate) struct Measurement {
    /// Of all threads together.
    pub(crate) operations: u64,
    pub(crate) elapsed: Duration,
    /// Of one operation.
    pub(crate) bytes: usize,
    pub(crate) latency: Histogram,
}

/// A part of a round that is enough to see how slow it is.
const TRIAL: usize = 1000;

/// Measures with so many threads. `make` gives the contestant and its workload, ready to go.
pub(crate) fn measure<C: Contestant, W: Workload<C>>(
    rules: &Rules<'_>,
    threads: usize,
    make: &dyn Fn() -> io::Result<(C, W)>,
) -> io::Result<Measurement> {
    let mut subject = None;
    let untimed = || Untimed;

    let ready = fresh(rules, threads, make, &mut subject)?;
    let (round, bytes) = (ready.1.operations(), ready.1.bytes());
    let trial = (round / TRIAL).max(1);
    let expected =
        iteration(ready, threads, trial, &untimed)?.0.mul_f64(round as f64 / trial as f64);
    let mut operations = round;
    if expected > rules.longest {
        let part = rules.longest.as_secs_f64() / expected.as_secs_f64();
        operations = ((round as f64 * part) as usize).max(1);
    }
    if rules.chill.is_none() {
        let ready = fresh(rules, threads, make, &mut subject)?;
        let elapsed = iteration(ready, threads, operations, &untimed)?.0;
        if ready.1.repeats() && elapsed < rules.shortest {
            let rounds = rules.shortest.as_secs_f64() / elapsed.as_secs_f64().max(1e-9);
            operations = operations.saturating_mul(rounds.ceil().min(1e6) as usize);
        }
    }

    let mut times = Vec::with_capacity(rules.iterations);
    for _ in 0..rules.iterations {
        let ready = fresh(rules, threads, make, &mut subject)?;
        times.push(iteration(ready, threads, operations, &untimed)?.0);
    }
    let ready = fresh(rules, threads, make, &mut subject)?;
    let clock = rules.clock;
    let mut latency = Histogram::new();
    for timed in iteration(ready, threads, operations, &|| Timed::new(clock))?.1 {
        latency.merge(&timed.into_histogram());
    }
    if let Some((contestant, workload)) = &subject {
        workload.clean(contestant)?;
    }
    Ok(Measurement {
        operations: operations as u64 * threads as u64,
        elapsed: median(&mut times),
        bytes,
        latency,
    })
}

/// The contestant in the state that an iteration starts from, made if there is none.
fn fresh<'s, C: Contestant, W: Workload<C>>(
    rules: &Rules<'_>,
    threads: usize,
    make: &dyn Fn() -> io::Result<(C, W)>,
    subject: &'s mut Option<(C, W)>,
) -> io::Result<&'s (C, W)> {
    if let Some(chill) = rules.chill {
        // What it has mapped cannot be dropped from the cache while it lives.
        subject.take();
        chill()?;
    }
    let ready = match subject {
        Some(ready) => ready,
        None => subject.insert(make()?),
    };
    ready.1.reset(&ready.0, threads)?;
    if let Some(settle) = rules.settle {
        settle()?;
    }
    Ok(ready)
}

/// The middle one, the lower of two.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len().saturating_sub(1) / 2).copied().unwrap_or_default()
}

/// Lets all threads do so many operations each, and says how long that took.
fn iteration<C: Contestant, W: Workload<C>, R: Recorder>(
    (contestant, workload): &(C, W),
    threads: usize,
    operations: usize,
    recorder: &(dyn Fn() -> R + Sync),
) -> io::Result<(Duration, Vec<R>)> {
    // Closed until every thread is prepared; left at false when some could not be started.
    let gate = RwLock::new(false);
    let run = |number: usize, preparing: Sender<()>| {
        let prepared = workload.thread(contestant, number, threads);
        let mut recorder = recorder();
        drop(preparing);
        if !*gate.read().unwrap_or_else(PoisonError::into_inner) {
            return Err(io::Error::other("not all threads could be started"));
        }
        let mut state = prepared?;
        let start = Instant::now();
        workload.work(contestant, &mut state, operations, &mut recorder)?;
        Ok((start, Instant::now(), recorder))
    };
    let results: Vec<_> = thread::scope(|scope| {
        let run = &run;
        let (preparing, prepared) = mpsc::channel();
        let mut gate = gate.write().unwrap_or_else(PoisonError::into_inner);
        let workers: io::Result<Vec<_>> = (0..threads)
            .map(|number| {
                let preparing = preparing.clone();
                // By this name a profiler tells them from the rest of the program.
                let worker = thread::Builder::new().name("bench-worker".to_owned());
                worker.spawn_scoped(scope, move || run(number, preparing))
            })
            .collect();
        drop(preparing);
        // Nothing is ever sent: it ends when every thread has let go of its sender.
        let _ = prepared.recv();
        *gate = workers.is_ok();
        drop(gate);
        workers?
            .into_iter()
            .map(|worker| {
                worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            })
            .collect::<io::Result<_>>()
    })?;
    let start = results.iter().map(|result| result.0).min();
    let end = results.iter().map(|result| result.1).max();
    let elapsed = end.zip(start).map_or(Duration::ZERO, |(end, start)| end - start);
    Ok((elapsed, results.into_iter().map(|result| result.2).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_one_of_the_times() {
        let median = |times: &[u64]| {
            let mut times: Vec<_> = times.iter().copied().map(Duration::from_secs).collect();
            super::median(&mut times).as_secs()
        };
        assert_eq!(median(&[3]), 3);
        assert_eq!(median(&[9, 1, 5]), 5);
        assert_eq!(median(&[9, 1, 5, 6]), 5);
    }
}
