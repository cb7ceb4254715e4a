//! Random changes through overlays, compared at each step with a memory backend that takes the
//! same changes: the overlay must answer alike, error kinds included, and look the same.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use stratafs::{
    ErrorKind, File, FileId, FileSystem, FileType, MemoryFs, MetadataChange, NativeFs, NewNode,
    OpenOptions, OverlayFs, RenameMode, TracedFs, VfsPath, VfsPathBuf, XattrMode,
};

/// Numbers that look random and are the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    /// Few names, so that changes meet each other.
    fn path(&mut self) -> VfsPathBuf {
        let mut path = VfsPathBuf::new();
        for _ in 0..1 + self.roll(3) {
            let name = [b"abc"[self.roll(3)]];
            path.push(&name).unwrap();
        }
        path
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(VfsPathBuf, Vec<u8>, OpenOptions),
    Create(VfsPathBuf, &'static str),
    RemoveFile(VfsPathBuf),
    RemoveDir(VfsPathBuf),
    Rename(VfsPathBuf, VfsPathBuf, RenameMode),
    Link(VfsPathBuf, VfsPathBuf),
    Mode(VfsPathBuf, u32),
    SetXattr(VfsPathBuf, Vec<u8>, XattrMode),
    RemoveXattr(VfsPathBuf),
    Open(usize, VfsPathBuf, OpenOptions),
    Close(usize),
    HandleWrite(usize, Vec<u8>, u64),
    HandleLen(usize, u64),
    HandleMode(usize, u32),
}

impl Step {
    fn random(dice: &mut Dice, links: bool) -> Step {
        let bytes = |dice: &mut Dice| vec![b'0' + dice.roll(10) as u8; 1 + dice.roll(40)];
        let slot = |dice: &mut Dice| dice.roll(4);
        match dice.roll(22) {
            0..=2 => {
                let mut options = OpenOptions::new().write(true).truncate(dice.roll(2) == 0);
                options = options.create(dice.roll(4) > 0).append(dice.roll(4) == 0);
                Step::Write(dice.path(), bytes(dice), options.create_new(dice.roll(8) == 0))
            }
            3..=5 => Step::Create(dice.path(), ["dir", "dir", "link"][dice.roll(3)]),
            6 => Step::RemoveFile(dice.path()),
            7 | 8 => Step::RemoveDir(dice.path()),
            9..=12 => {
                let modes = [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange];
                let mode = [0, 0, 1, 2][dice.roll(4)];
                Step::Rename(dice.path(), dice.path(), modes[mode])
            }
            13 if links => Step::Link(dice.path(), dice.path()),
            13 | 14 => Step::Mode(dice.path(), 0o600 + dice.roll(64) as u32),
            15 => {
                let modes = [XattrMode::Set, XattrMode::Create, XattrMode::Replace];
                Step::SetXattr(dice.path(), bytes(dice), modes[dice.roll(3)])
            }
            16 => Step::RemoveXattr(dice.path()),
            17 => {
                let write = dice.roll(3) > 0;
                let options = OpenOptions::new().read(true).write(write);
                Step::Open(slot(dice), dice.path(), options.append(write && dice.roll(4) == 0))
            }
            18 => Step::Close(slot(dice)),
            19 => Step::HandleWrite(slot(dice), bytes(dice), dice.roll(60) as u64),
            20 => Step::HandleLen(slot(dice), dice.roll(60) as u64),
            _ => Step::HandleMode(slot(dice), 0o600 + dice.roll(64) as u32),
        }
    }
}

type Answer = Result<(), ErrorKind>;

#[derive(Default)]
struct Handles([Option<Box<dyn File>>; 4]);

fn carry_out(fs: &dyn FileSystem, handles: &mut Handles, step: &Step) -> Answer {
    let on = |handles: &Handles, slot: usize, act: &dyn Fn(&dyn File) -> Answer| {
        handles.0[slot].as_deref().map_or(Ok(()), act)
    };
    let kind = |error: stratafs::BackendError| error.kind();
    match step {
        Step::Write(path, bytes, options) => {
            let file = fs.open(path, options).map_err(kind)?;
            file.write_at(bytes, 3).map(drop).map_err(kind)
        }
        Step::Create(path, "dir") => fs.create(path, &NewNode::directory()).map(drop).map_err(kind),
        Step::Create(path, _) => {
            fs.create(path, &NewNode::symlink(b"nowhere")).map(drop).map_err(kind)
        }
        Step::RemoveFile(path) => fs.remove_file(path).map_err(kind),
        Step::RemoveDir(path) => fs.remove_dir(path).map_err(kind),
        Step::Rename(from, to, mode) => fs.rename(from, to, *mode).map_err(kind),
        Step::Link(from, to) => fs.link(from, to).map_err(kind),
        Step::Mode(path, mode) => match fs.metadata(path).map_err(kind)?.file_type {
            // Not all hosts keep modes of links.
            FileType::Symlink => Ok(()),
            _ => fs.set_metadata(path, &MetadataChange::new().mode(*mode)).map_err(kind),
        },
        Step::SetXattr(path, value, mode) => match fs.metadata(path).map_err(kind)?.file_type {
            FileType::Symlink => Ok(()),
            _ => fs.set_xattr(path, b"user.test", value, *mode).map_err(kind),
        },
        Step::RemoveXattr(path) => match fs.metadata(path).map_err(kind)?.file_type {
            FileType::Symlink => Ok(()),
            _ => fs.remove_xattr(path, b"user.test").map_err(kind),
        },
        Step::Open(slot, path, options) => {
            handles.0[*slot] = None;
            handles.0[*slot] = Some(fs.open(path, options).map_err(kind)?);
            Ok(())
        }
        Step::Close(slot) => {
            handles.0[*slot] = None;
            Ok(())
        }
        Step::HandleWrite(slot, bytes, offset) => {
            on(handles, *slot, &|file| file.write_at(bytes, *offset).map(drop).map_err(kind))
        }
        Step::HandleLen(slot, len) => on(handles, *slot, &|file| file.set_len(*len).map_err(kind)),
        Step::HandleMode(slot, mode) => on(handles, *slot, &|file| {
            file.set_metadata(&MetadataChange::new().mode(*mode)).map_err(kind)
        }),
    }
}

/// What users see of one file.
#[derive(PartialEq, Eq, Debug)]
struct Look {
    file_type: FileType,
    mode: u32,
    links: u32,
    contents: Vec<u8>,
    xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of names of one file the first.
    same_as: VfsPathBuf,
}

fn read_all(file: &dyn File) -> Vec<u8> {
    let mut contents = vec![0; 200];
    let count = file.read_at(&mut contents, 0).unwrap();
    contents.truncate(count);
    contents
}

fn tree(fs: &dyn FileSystem) -> BTreeMap<VfsPathBuf, Look> {
    let mut found: BTreeMap<VfsPathBuf, (FileType, FileId)> = BTreeMap::new();
    let mut pending = vec![VfsPathBuf::new()];
    while let Some(directory) = pending.pop() {
        fs.read_dir(&directory, &mut |entry| {
            let path = directory.join_name(entry.name).unwrap();
            if entry.file_type.is_dir() {
                pending.push(path.clone());
            }
            let again = found.insert(path, (entry.file_type, entry.id));
            assert_eq!(again, None, "{:?} is listed twice", entry.name);
            ControlFlow::Continue(())
        })
        .unwrap();
    }
    let mut first: BTreeMap<FileId, VfsPathBuf> = BTreeMap::new();
    let mut tree = BTreeMap::new();
    let directories: Vec<VfsPathBuf> = found
        .iter()
        .filter(|(_, (file_type, _))| *file_type == FileType::Directory)
        .map(|(path, _)| path.clone())
        .collect();
    for (path, (file_type, id)) in found {
        let metadata = fs.metadata(&path).unwrap();
        if file_type == FileType::Directory && metadata.links != 1 {
            let below = directories.iter().filter(|below| below.parent() == Some(&*path)).count();
            assert_eq!(metadata.links as usize, 2 + below, "links of {path:?}");
        }
        assert_eq!((metadata.file_type, metadata.id), (file_type, id), "{path:?}");
        assert!(fs.exists(&path).unwrap(), "{path:?}");
        let (mode, links) = match file_type {
            FileType::Symlink => (0, metadata.links),
            FileType::Directory => (metadata.mode, 0),
            _ => (metadata.mode, metadata.links),
        };
        let contents = match file_type {
            FileType::File => {
                let file = fs.open(&path, &OpenOptions::reading()).unwrap();
                assert_eq!(file.metadata().unwrap(), metadata, "{path:?}");
                read_all(&*file)
            }
            FileType::Symlink => fs.read_link(&path).unwrap(),
            _ => Vec::new(),
        };
        let xattrs = fs.xattrs(&path).unwrap().into_iter();
        let xattrs = xattrs.map(|name| (name.clone(), fs.xattr(&path, &name).unwrap())).collect();
        let same_as = first.entry(id).or_insert_with(|| path.clone()).clone();
        tree.insert(path, Look { file_type, mode, links, contents, xattrs, same_as });
    }
    tree
}

/// Says only what differs.
#[track_caller]
fn assert_alike(ours: &dyn FileSystem, model: &dyn FileSystem, context: &str) {
    let (ours, model) = (tree(ours), tree(model));
    let names = ours.keys().chain(model.keys());
    let differ: BTreeMap<_, _> = names
        .filter(|&name| ours.get(name) != model.get(name))
        .map(|name| (name, (ours.get(name), model.get(name))))
        .collect();
    assert!(differ.is_empty(), "{context}: {differ:#?}");
}

fn compare_handles(subject: &Handles, model: &Handles, context: &dyn Fn() -> String) {
    for (subject, model) in subject.0.iter().zip(&model.0) {
        let (Some(subject), Some(model)) = (subject, model) else { continue };
        assert_eq!(read_all(&**subject), read_all(&**model), "{}", context());
        let (subject, model) = (subject.metadata().unwrap(), model.metadata().unwrap());
        assert_eq!(
            (subject.len, subject.mode, subject.links),
            (model.len, model.mode, model.links),
            "{}",
            context()
        );
    }
}

fn drive(subject: &dyn FileSystem, model: &dyn FileSystem, dice: &mut Dice, steps: usize) {
    let mut done = Vec::new();
    let (mut ours, mut theirs) = (Handles::default(), Handles::default());
    for number in 0..steps {
        let step = Step::random(dice, true);
        done.push(step.clone());
        let answer = carry_out(subject, &mut ours, &step);
        let expected = carry_out(model, &mut theirs, &step);
        let context = || {
            let tail: Vec<_> = done.iter().rev().take(12).rev().map(|s| format!("{s:?}")).collect();
            format!("after step {number}:\n{}", tail.join("\n"))
        };
        assert_eq!(answer, expected, "{}", context());
        let probe = dice.path();
        let kind = |answer: stratafs::BackendResult<stratafs::Metadata>| {
            answer.map(|found| found.file_type).map_err(|error| error.kind())
        };
        let (ours_at, theirs_at) = (kind(subject.metadata(&probe)), kind(model.metadata(&probe)));
        assert_eq!(ours_at, theirs_at, "{probe:?} {}", context());
        compare_handles(&ours, &theirs, &context);
        if number % 5 == 0 {
            assert_alike(subject, model, &context());
        }
    }
    assert_alike(subject, model, "at the end");
}

/// The same changes on two backends, without hard links: a copy-up breaks those of a lower
/// layer.
fn fill(lower: &dyn FileSystem, model: &dyn FileSystem, dice: &mut Dice) {
    let (mut ours, mut theirs) = (Handles::default(), Handles::default());
    for name in ["a", "b", "a/a", "a/b", "b/c"] {
        let step = Step::Create(VfsPath::new(name.as_bytes()).unwrap().to_owned(), "dir");
        carry_out(lower, &mut ours, &step).unwrap();
        carry_out(model, &mut theirs, &step).unwrap();
    }
    for _ in 0..60 {
        let step = Step::random(dice, false);
        let answer = carry_out(lower, &mut ours, &step);
        assert_eq!(answer, carry_out(model, &mut theirs, &step), "{step:?}");
    }
}

type Backend = Arc<dyn FileSystem>;

fn overlay(layers: &[&Backend]) -> OverlayFs {
    let mut builder = OverlayFs::builder().upper(Arc::clone(layers[0]));
    for layer in &layers[1..] {
        builder = builder.lower(Arc::clone(layer));
    }
    builder.build().unwrap()
}

fn two_layers(seed: u64, steps: usize, make: &mut dyn FnMut() -> Backend, lower: Backend) {
    let dice = &mut Dice(0x9e37_79b9_7f4a_7c15 ^ (seed << 20 | seed | 1));
    let (model, upper) = (MemoryFs::new(), make());
    fill(&*lower, &model, dice);
    let before = tree(&*lower);
    let subject = overlay(&[&upper, &lower]);
    drive(&subject, &model, dice, steps);
    assert_eq!(tree(&*lower), before, "the lower layer has changed");
    drop(subject);
    // What the upper layer keeps is all there is to know.
    let subject = overlay(&[&upper, &lower]);
    assert_alike(&subject, &model, &format!("opened again, seed {seed}"));
    drive(&subject, &model, dice, steps / 4);
}

fn three_layers(seed: u64, steps: usize, make: &mut dyn FnMut() -> Backend) {
    let dice = &mut Dice(0xd1b5_4a32_d192_ed03 ^ (seed << 20 | seed | 1));
    let (model, base, middle, upper) = (MemoryFs::new(), make(), make(), make());
    fill(&*base, &model, dice);
    {
        // Hard links of the middle layer would be broken by a copy-up.
        let subject = overlay(&[&middle, &base]);
        let (mut ours, mut theirs) = (Handles::default(), Handles::default());
        for _ in 0..steps {
            let step = Step::random(dice, false);
            let answer = carry_out(&subject, &mut ours, &step);
            assert_eq!(answer, carry_out(&model, &mut theirs, &step), "{step:?}");
        }
        assert_alike(&subject, &model, "the middle layer");
    }
    let subject = overlay(&[&upper, &middle, &base]);
    assert_alike(&subject, &model, &format!("an old upper layer as a lower one, seed {seed}"));
    drive(&subject, &model, dice, steps);
}

#[test]
fn memory_over_memory() {
    for seed in 0..40 {
        two_layers(seed, 400, &mut || Arc::new(MemoryFs::new()), Arc::new(MemoryFs::new()));
    }
}

#[test]
fn memory_over_native() {
    for seed in 100..106 {
        let directory = tempfile::tempdir().unwrap();
        let lower = Arc::new(NativeFs::new(directory.path()).unwrap());
        two_layers(seed, 200, &mut || Arc::new(MemoryFs::new()), lower);
    }
}

#[test]
fn native_over_native() {
    for seed in 200..206 {
        let (lower, upper) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let lower = Arc::new(NativeFs::new(lower.path()).unwrap());
        let mut make = || Arc::new(NativeFs::new(upper.path()).unwrap()) as Backend;
        two_layers(seed, 200, &mut make, lower);
    }
}

#[test]
fn an_old_upper_layer_beneath_a_new_one() {
    for seed in 300..330 {
        three_layers(seed, 200, &mut || Arc::new(MemoryFs::new()));
    }
}

#[test]
fn applied_changes_give_the_same_tree() {
    for seed in 400..450 {
        let dice = &mut Dice(0xa076_1d64_78bd_642f ^ (seed << 20 | seed | 1));
        let (model, lower): (_, Backend) = (MemoryFs::new(), Arc::new(MemoryFs::new()));
        fill(&*lower, &model, dice);
        let upper: Backend = Arc::new(MemoryFs::new());
        let subject = overlay(&[&upper, &lower]);
        drive(&subject, &model, dice, 60);
        let kept: Backend = Arc::new(MemoryFs::new());
        subject.keep(&*kept).unwrap();
        assert_alike(&overlay(&[&kept, &lower]), &model, &format!("kept, seed {seed}"));
        let changes = subject.changes().unwrap();
        match seed % 2 {
            0 => subject.apply(&*lower).unwrap(),
            // Another object: nothing can be moved.
            _ => subject.apply(&TracedFs::new(lower.clone())).unwrap(),
        }
        assert_alike(&*lower, &model, &format!("applied, seed {seed}: {changes:#?}"));
    }
}
