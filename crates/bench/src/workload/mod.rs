//! What a thread does in each scenario, written once for all contestants.

mod metadata;
mod read;
mod write;

use std::io;

use crate::contestant::Contestant;
use crate::latency::Recorder;

pub(crate) use metadata::{List, Miss, Open, Stat};
pub(crate) use read::{ReadFiles, ReadRandomly, ReadThrough};
pub(crate) use write::{Append, Churn, Create, Overwrite, WriteThrough};

/// The work of one scenario on one contestant. Each thread does the same amount of it.
pub(crate) trait Workload<C: Contestant>: Sync {
    /// What a thread holds, made before its time starts.
    type Thread;

    /// The operations of one full round.
    fn operations(&self) -> usize;

    /// Bytes read or written by an operation; 0 for metadata.
    fn bytes(&self) -> usize;

    /// Whether more than a round can be done in one go, to measure long enough, without leaving
    /// more behind than one round does.
    fn repeats(&self) -> bool {
        true
    }

    /// Brings the data into the state that the work starts from. Not timed.
    fn reset(&self, _contestant: &C, _threads: usize) -> io::Result<()> {
        Ok(())
    }

    /// Removes what the work left behind. Not timed.
    fn clean(&self, _contestant: &C) -> io::Result<()> {
        Ok(())
    }

    /// Makes ready thread `number` of `threads`, which starts at its own place in the data.
    /// Not timed.
    fn thread(&self, contestant: &C, number: usize, threads: usize) -> io::Result<Self::Thread>;

    /// Does so many operations.
    fn work<R: Recorder>(
        &self,
        contestant: &C,
        thread: &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()>;
}

/// Goes round a list of names for ever, from a place of its own for each thread.
pub(crate) struct Round {
    next: usize,
    len: usize,
}

impl Round {
    fn new(len: usize, number: usize, threads: usize) -> Self {
        Round { next: number * len / threads, len }
    }

    #[inline]
    fn next(&mut self) -> usize {
        let index = self.next;
        self.next = if index + 1 == self.len { 0 } else { index + 1 };
        index
    }
}

/// A buffer whose memory is there already, so that no page of it is first touched in the
/// measurement.
fn buffer(len: usize) -> Vec<u8> {
    vec![1; len]
}

#[cfg(test)]
mod tests {
    use super::Round;

    #[test]
    fn threads_start_apart_and_see_everything() {
        for (number, first) in [(0, 0), (1, 3), (2, 6)] {
            let mut round = Round::new(10, number, 3);
            let mut seen: Vec<usize> = (0..10).map(|_| round.next()).collect();
            assert_eq!(seen[0], first);
            seen.sort_unstable();
            assert_eq!(seen, (0..10).collect::<Vec<_>>());
        }
    }
}
