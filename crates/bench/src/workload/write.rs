//! Writing. Each thread has a directory or file of its own.

use std::io;
use std::marker::PhantomData;

use crate::contestant::Writable;
use crate::dataset::{Random, Sizes, Text, WRITE_DIR};
use crate::latency::Recorder;

use super::Workload;

fn directory(number: usize) -> String {
    format!("{WRITE_DIR}/thread-{number}")
}

/// Nothing but an empty directory for each thread.
fn empty_directories<C: Writable>(contestant: &C, threads: usize) -> io::Result<()> {
    contestant.remove_dir_all(WRITE_DIR)?;
    (0..threads).try_for_each(|number| contestant.create_dir_all(&directory(number)))
}

fn contents(number: usize, len: usize) -> Vec<u8> {
    Text::new(number as u64).take(len).to_vec()
}

/// Makes a file and writes it in one go, for each of a list of names.
pub(crate) struct Create<C> {
    files: usize,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Create<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Create { files: sizes.created_files, contestant: PhantomData }
    }
}

impl<C: Writable> Workload<C> for Create<C> {
    type Thread = (Vec<C::Name>, Vec<u8>);

    fn operations(&self) -> usize {
        self.files
    }

    fn bytes(&self) -> usize {
        Sizes::CREATED
    }

    fn repeats(&self) -> bool {
        false
    }

    fn reset(&self, contestant: &C, threads: usize) -> io::Result<()> {
        empty_directories(contestant, threads)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let directory = directory(number);
        let name = |index| contestant.name(&format!("{directory}/new-{index:05}.txt"));
        Ok(((0..self.files).map(name).collect(), contents(number, Sizes::CREATED)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (names, data): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        for name in &names[..operations] {
            recorder.operation(|| {
                let mut writer = contestant.create(name)?;
                C::write_next(&mut writer, data, 0)?;
                C::close(writer)
            })?;
        }
        Ok(())
    }
}

/// Makes a file, writes a page, deletes the file.
pub(crate) struct Churn<C> {
    files: usize,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Churn<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Churn { files: sizes.churned_files, contestant: PhantomData }
    }
}

/// How many names take turns.
const CHURNED_NAMES: usize = 64;

impl<C: Writable> Workload<C> for Churn<C> {
    type Thread = (Vec<C::Name>, Vec<u8>);

    fn operations(&self) -> usize {
        self.files
    }

    fn bytes(&self) -> usize {
        Sizes::PAGE
    }

    fn reset(&self, contestant: &C, threads: usize) -> io::Result<()> {
        empty_directories(contestant, threads)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let directory = directory(number);
        let name = |index| contestant.name(&format!("{directory}/churn-{index:02}.tmp"));
        Ok(((0..CHURNED_NAMES).map(name).collect(), contents(number, Sizes::PAGE)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (names, data): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        for name in names.iter().cycle().take(operations) {
            recorder.operation(|| {
                let mut writer = contestant.create(name)?;
                C::write_next(&mut writer, data, 0)?;
                C::close(writer)?;
                contestant.remove(name)
            })?;
        }
        Ok(())
    }
}

/// Makes one large file and writes it from start to end; an operation is one chunk.
pub(crate) struct WriteThrough<C> {
    chunks: usize,
    chunk: usize,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> WriteThrough<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        let chunk = sizes.large_chunk();
        WriteThrough { chunks: sizes.large / chunk, chunk, contestant: PhantomData }
    }
}

impl<C: Writable> Workload<C> for WriteThrough<C> {
    type Thread = (C::Name, Vec<u8>);

    fn operations(&self) -> usize {
        self.chunks
    }

    fn bytes(&self) -> usize {
        self.chunk
    }

    fn repeats(&self) -> bool {
        false
    }

    fn reset(&self, contestant: &C, threads: usize) -> io::Result<()> {
        empty_directories(contestant, threads)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&format!("{}/large.txt", directory(number)));
        Ok((name, contents(number, self.chunk)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (name, data): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        let mut writer = contestant.create(name)?;
        for index in 0..operations {
            let offset = (index * self.chunk) as u64;
            recorder.operation(|| C::write_next(&mut writer, data, offset))?;
        }
        C::close(writer)
    }
}

/// Opens an existing file for reading and writing and overwrites pages of it at random.
pub(crate) struct Overwrite<C> {
    writes: usize,
    len: usize,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Overwrite<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Overwrite { writes: sizes.overwrites, len: sizes.overwritten, contestant: PhantomData }
    }

    fn path(number: usize) -> String {
        format!("{}/table.db", directory(number))
    }
}

impl<C: Writable> Workload<C> for Overwrite<C> {
    type Thread = (C::Name, Random, Vec<u8>);

    fn operations(&self) -> usize {
        self.writes
    }

    fn bytes(&self) -> usize {
        Sizes::PAGE
    }

    fn reset(&self, contestant: &C, threads: usize) -> io::Result<()> {
        empty_directories(contestant, threads)?;
        for number in 0..threads {
            let mut writer = contestant.create(&contestant.name(&Self::path(number)))?;
            let data = contents(number, self.len);
            for (index, chunk) in data.chunks(Sizes::LARGE_CHUNK).enumerate() {
                C::write_next(&mut writer, chunk, (index * Sizes::LARGE_CHUNK) as u64)?;
            }
            C::close(writer)?;
        }
        Ok(())
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&Self::path(number));
        Ok((name, Random::new(number as u64), contents(number, Sizes::PAGE)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (name, random, data): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        let pages = self.len / Sizes::PAGE;
        let mut writer = contestant.open_in_place(name)?;
        for _ in 0..operations {
            let offset = (random.below(pages) * Sizes::PAGE) as u64;
            recorder.operation(|| C::write_at(&mut writer, data, offset))?;
        }
        C::close(writer)
    }
}

/// Opens a log for appending, appends some pages, closes it, again and again; an operation is
/// one page.
pub(crate) struct Append<C> {
    batches: usize,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Append<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Append { batches: sizes.append_batches, contestant: PhantomData }
    }
}

impl<C: Writable> Workload<C> for Append<C> {
    type Thread = (C::Name, Vec<u8>);

    fn operations(&self) -> usize {
        self.batches * Sizes::APPENDS_PER_OPEN
    }

    fn bytes(&self) -> usize {
        Sizes::PAGE
    }

    fn repeats(&self) -> bool {
        false
    }

    fn reset(&self, contestant: &C, threads: usize) -> io::Result<()> {
        empty_directories(contestant, threads)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&format!("{}/log.txt", directory(number)));
        Ok((name, contents(number, Sizes::PAGE)))
    }

    fn work<R: Recorder>(
        &self,
        contestant: &C,
        (name, data): &mut Self::Thread,
        operations: usize,
        recorder: &mut R,
    ) -> io::Result<()> {
        let mut done = 0;
        while done < operations {
            let mut writer = contestant.open_append(name)?;
            for _ in 0..Sizes::APPENDS_PER_OPEN.min(operations - done) {
                recorder
                    .operation(|| C::write_next(&mut writer, data, (done * Sizes::PAGE) as u64))?;
                done += 1;
            }
            C::close(writer)?;
        }
        Ok(())
    }
}
