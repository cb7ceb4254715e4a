//! Reading.

use std::hint::black_box;
use std::io;

use crate::contestant::Contestant;
use crate::dataset::{LARGE_FILE, Random, Sizes};
use crate::latency::Recorder;

use super::{Round, Workload, buffer};

/// Opens files one after the other, reads each whole in chunks, closes it.
pub(crate) struct ReadFiles<C: Contestant> {
    names: Vec<C::Name>,
    len: usize,
    chunk: usize,
}

impl<C: Contestant> ReadFiles<C> {
    pub(crate) fn new(names: Vec<C::Name>, len: usize, chunk: usize) -> Self {
        ReadFiles { names, len, chunk }
    }
}

impl<C: Contestant> Workload<C> for ReadFiles<C> {
    type Thread = (Round, Vec<u8>);

    fn operations(&self) -> usize {
        self.names.len()
    }

    fn bytes(&self) -> usize {
        self.len
    }

    fn thread(&self, _: &C, number: usize, threads: usize) -> io::Result<Self::Thread> {
        Ok((Round::new(self.names.len(), number, threads), buffer(self.chunk)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (round, buf): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        for _ in 0..operations {
            let name = &self.names[round.next()];
            recorder.operation(|| {
                let mut reader = contestant.open(name)?;
                for offset in (0..self.len).step_by(self.chunk) {
                    C::read_next(&mut reader, buf, offset as u64)?;
                    black_box(&buf);
                }
                io::Result::Ok(())
            })?;
        }
        Ok(())
    }
}

/// Reads the large file from its start to its end; an operation is one chunk.
pub(crate) struct ReadThrough<C: Contestant> {
    name: C::Name,
    chunks: usize,
    chunk: usize,
}

impl<C: Contestant> ReadThrough<C> {
    pub(crate) fn new(contestant: &C, sizes: &Sizes) -> Self {
        let chunk = sizes.large_chunk();
        ReadThrough { name: contestant.name(LARGE_FILE), chunks: sizes.large / chunk, chunk }
    }
}

impl<C: Contestant> Workload<C> for ReadThrough<C> {
    type Thread = Vec<u8>;

    fn operations(&self) -> usize {
        self.chunks
    }

    fn bytes(&self) -> usize {
        self.chunk
    }

    fn thread(&self, _: &C, _: usize, _: usize) -> io::Result<Self::Thread> {
        Ok(buffer(self.chunk))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        buf: &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        let mut left = operations;
        while left > 0 {
            let mut reader = contestant.open(&self.name)?;
            for index in 0..left.min(self.chunks) {
                recorder.operation(|| {
                    C::read_next(&mut reader, buf, (index * self.chunk) as u64)?;
                    black_box(&buf);
                    io::Result::Ok(())
                })?;
            }
            left -= left.min(self.chunks);
        }
        Ok(())
    }
}

/// Opens the large file once and reads pages of it at random offsets, not aligned.
pub(crate) struct ReadRandomly<C: Contestant> {
    name: C::Name,
    reads: usize,
    bound: usize,
}

impl<C: Contestant> ReadRandomly<C> {
    pub(crate) fn new(contestant: &C, sizes: &Sizes) -> Self {
        ReadRandomly {
            name: contestant.name(LARGE_FILE),
            reads: sizes.random_reads,
            bound: sizes.large - Sizes::PAGE + 1,
        }
    }
}

impl<C: Contestant> Workload<C> for ReadRandomly<C> {
    type Thread = (Random, Vec<u8>);

    fn operations(&self) -> usize {
        self.reads
    }

    fn bytes(&self) -> usize {
        Sizes::PAGE
    }

    fn thread(&self, _: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        Ok((Random::new(number as u64), buffer(Sizes::PAGE)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (random, buf): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        let mut reader = contestant.open(&self.name)?;
        for _ in 0..operations {
            let offset = random.below(self.bound) as u64;
            recorder.operation(|| {
                C::read_at(&mut reader, buf, offset)?;
                black_box(&buf);
                io::Result::Ok(())
            })?;
        }
        Ok(())
    }
}
