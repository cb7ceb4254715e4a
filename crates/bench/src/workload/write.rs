//! Writing. Each thread has a directory or file of its own.

use std::io;
use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use crate::contestant::Writable;
use crate::dataset::{Random, Sizes, Text, WRITE_DIR};
use crate::latency::Recorder;

use super::Workload;

/// The directory of one iteration, with one for each thread in it.
///
/// Each iteration has a name of its own: ext4 is slow to make files where many were deleted a
/// short while ago, as it does not use their inodes again so soon, and the targets that come
/// first would leave that to those that come last. [`World`](crate::world::World) has it put
/// directories with different names in different places.
struct Area {
    current: AtomicU64,
}

/// The last number given to an area; the disk's targets share the place.
static LAST: AtomicU64 = AtomicU64::new(0);

impl Area {
    fn new() -> Self {
        Area { current: AtomicU64::new(0) }
    }

    fn path(&self) -> String {
        format!("{WRITE_DIR}/iteration-{}", self.current.load(Relaxed))
    }

    fn thread(&self, number: usize) -> String {
        format!("{}/thread-{number}", self.path())
    }

    /// Removes the last iteration's directory and makes one for this.
    fn renew<C: Writable>(&self, contestant: &C, threads: usize) -> io::Result<()> {
        self.clean(contestant)?;
        self.current.store(LAST.fetch_add(1, Relaxed) + 1, Relaxed);
        (0..threads).try_for_each(|number| contestant.create_dir_all(&self.thread(number)))
    }

    fn clean<C: Writable>(&self, contestant: &C) -> io::Result<()> {
        contestant.remove_dir_all(&self.path())
    }
}

fn contents(number: usize, len: usize) -> Vec<u8> {
    Text::new(number as u64).take(len).to_vec()
}

/// Makes a file and writes it in one go, for each of a list of names.
pub(crate) struct Create<C> {
    files: usize,
    area: Area,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Create<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Create { files: sizes.created_files, area: Area::new(), contestant: PhantomData }
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
        self.area.renew(contestant, threads)
    }

    fn clean(&self, contestant: &C) -> io::Result<()> {
        self.area.clean(contestant)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let directory = self.area.thread(number);
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
    area: Area,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Churn<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Churn { files: sizes.churned_files, area: Area::new(), contestant: PhantomData }
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
        self.area.renew(contestant, threads)
    }

    fn clean(&self, contestant: &C) -> io::Result<()> {
        self.area.clean(contestant)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let directory = self.area.thread(number);
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
    area: Area,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> WriteThrough<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        let chunk = sizes.large_chunk();
        WriteThrough {
            chunks: sizes.large / chunk,
            chunk,
            area: Area::new(),
            contestant: PhantomData,
        }
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
        self.area.renew(contestant, threads)
    }

    fn clean(&self, contestant: &C) -> io::Result<()> {
        self.area.clean(contestant)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&format!("{}/large.txt", self.area.thread(number)));
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
    area: Area,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Overwrite<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Overwrite {
            writes: sizes.overwrites,
            len: sizes.overwritten,
            area: Area::new(),
            contestant: PhantomData,
        }
    }

    fn path(&self, number: usize) -> String {
        format!("{}/table.db", self.area.thread(number))
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
        self.area.renew(contestant, threads)?;
        for number in 0..threads {
            let mut writer = contestant.create(&contestant.name(&self.path(number)))?;
            let data = contents(number, self.len);
            // By pages, which every interface hands to the system as they are. C streams cut
            // larger pieces their own way, and the kernel keeps a file in as large parts as it
            // was written in, which it then walks through at each small write.
            for (index, page) in data.chunks(Sizes::PAGE).enumerate() {
                C::write_next(&mut writer, page, (index * Sizes::PAGE) as u64)?;
            }
            C::close(writer)?;
        }
        Ok(())
    }

    fn clean(&self, contestant: &C) -> io::Result<()> {
        self.area.clean(contestant)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&self.path(number));
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
    area: Area,
    contestant: PhantomData<fn(&C)>,
}

impl<C: Writable> Append<C> {
    pub(crate) fn new(_: &C, sizes: &Sizes) -> Self {
        Append { batches: sizes.append_batches, area: Area::new(), contestant: PhantomData }
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
        self.area.renew(contestant, threads)
    }

    fn clean(&self, contestant: &C) -> io::Result<()> {
        self.area.clean(contestant)
    }

    fn thread(&self, contestant: &C, number: usize, _: usize) -> io::Result<Self::Thread> {
        let name = contestant.name(&format!("{}/log.txt", self.area.thread(number)));
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
