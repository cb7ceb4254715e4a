//! Random operations on every file system that can be written, compared at each step with a
//! naive one.

#![cfg(target_os = "linux")]

use std::sync::Arc;

use proptest::prelude::{Strategy, any};
use stratafs::archive::{PackOptions, pack_to_vec};
use stratafs::{
    ArchiveFs, CaseFoldFs, FileSystem, MemoryFs, MountOptions, NativeFs, OverlayFs, SubdirFs,
    TracedFs, Vfs,
};
use stratafs_testkit::model::{self, Driver, Operation, Rules, difference, look, operations};
use stratafs_testkit::tools::{mkdir, p};

type Backend = Arc<dyn FileSystem>;

const NAMES: &[&str] = &["a", "b", "c"];

fn memory() -> Backend {
    Arc::new(MemoryFs::new())
}

fn native() -> (Backend, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    (Arc::new(NativeFs::new(dir.path()).expect("open the directory")), dir)
}

/// Compares what `make` makes, which needs its second part to live as long, with the model.
fn check<K>(
    cases: u32,
    names: &'static [&'static str],
    rules: Rules,
    make: impl Fn() -> (Backend, K),
) {
    model::run(cases, operations(names, 1..200), |operations| {
        let (fs, _keeps) = make();
        Driver::new(rules).drive(&*fs, &operations)
    });
}

#[test]
fn memory_alone() {
    check(60, NAMES, Rules::default(), || (memory(), ()));
}

#[test]
fn native_alone() {
    check(40, NAMES, Rules::default(), native);
}

#[test]
fn a_tree_of_mounts() {
    let mounts = &["m", "a/m"];
    check(40, &["a", "b", "m"], Rules { mounts, ..Rules::default() }, || {
        let root = memory();
        // A mount shows the directories that lead to it; these are there.
        mkdir(&*root, "a");
        let vfs = Vfs::new();
        for (at, fs) in [("", root), (mounts[0], memory()), (mounts[1], memory())] {
            vfs.mount(at, fs, MountOptions::new()).unwrap();
        }
        (vfs.freeze() as Backend, ())
    });
}

#[test]
fn below_a_directory() {
    check(20, NAMES, Rules::default(), || {
        let fs = memory();
        mkdir(&*fs, "base");
        (Arc::new(SubdirFs::new(fs, p("base").to_owned()).unwrap()) as Backend, ())
    });
}

#[test]
fn names_in_any_case() {
    let rules = Rules { fold: true, ..Rules::default() };
    check(40, &["a", "A", "b", "Bc", "bC"], rules, || {
        (Arc::new(CaseFoldFs::new(memory())) as Backend, ())
    });
}

fn overlay(layers: &[&Backend]) -> Arc<OverlayFs> {
    let mut builder = OverlayFs::builder().upper(Arc::clone(layers[0]));
    for layer in &layers[1..] {
        builder = builder.lower(Arc::clone(layer));
    }
    Arc::new(builder.build().expect("both layers are what an overlay needs"))
}

/// Fills a layer, without hard links, which a copy-up breaks.
fn fill(
    driver: &mut Driver,
    fs: &dyn FileSystem,
    mut operations: Vec<Operation>,
) -> Result<(), String> {
    operations.retain(|operation| !operation.links());
    driver.drive(fs, &operations)?;
    driver.close();
    Ok(())
}

/// What is done before there is an overlay, in it, and after it was opened again.
fn three_times() -> impl Strategy<Value = [Vec<Operation>; 3]> {
    [operations(NAMES, 0..80), operations(NAMES, 1..150), operations(NAMES, 0..40)]
}

/// An overlay of two layers, opened again on the way. `below` makes the lower layer of what
/// it was filled in.
fn two_layers<K, L>(
    cases: u32,
    upper: impl Fn() -> (Backend, K),
    lower: impl Fn() -> (Backend, L),
    below: impl Fn(&Backend) -> Backend,
) {
    model::run(cases, three_times(), |[before, during, after]| {
        let ((upper, _keeps), (filled, _keeps_too)) = (upper(), lower());
        let mut driver = Driver::new(Rules::default());
        fill(&mut driver, &*filled, before)?;
        let lower = below(&filled);
        let before = look(&*lower);
        let fs = overlay(&[&upper, &lower]);
        driver.drive(&*fs, &during)?;
        difference(&look(&*lower), &before).map_err(|text| format!("the lower layer: {text}"))?;
        driver.close();
        drop(fs);
        // What the upper layer keeps is all there is to know.
        let fs = overlay(&[&upper, &lower]);
        driver.compare(&*fs).map_err(|text| format!("opened again: {text}"))?;
        driver.drive(&*fs, &after)
    });
}

fn itself(fs: &Backend) -> Backend {
    Arc::clone(fs)
}

#[test]
fn memory_over_memory() {
    two_layers(40, || (memory(), ()), || (memory(), ()), itself);
}

#[test]
fn memory_over_native() {
    two_layers(16, || (memory(), ()), native, itself);
}

#[test]
fn native_over_native() {
    two_layers(16, native, native, itself);
}

#[test]
fn memory_over_an_archive() {
    two_layers(
        20,
        || (memory(), ()),
        || (memory(), ()),
        |fs| {
            let (bytes, _) = pack_to_vec(&**fs, &PackOptions::new()).expect("pack");
            Arc::new(ArchiveFs::from_bytes(bytes).expect("open the archive"))
        },
    );
}

#[test]
fn an_old_upper_layer_beneath_a_new_one() {
    model::run(20, three_times(), |[before, during, after]| {
        let (base, middle, upper) = (memory(), memory(), memory());
        let mut driver = Driver::new(Rules::default());
        fill(&mut driver, &*base, before)?;
        fill(&mut driver, &*overlay(&[&middle, &base]), during)?;
        let fs = overlay(&[&upper, &middle, &base]);
        driver.compare(&*fs).map_err(|text| format!("as a lower layer: {text}"))?;
        driver.drive(&*fs, &after)
    });
}

#[test]
fn changes_kept_and_applied() {
    let strategy = (three_times(), any::<bool>());
    model::run(30, strategy, |([before, during, after], through_another)| {
        let (lower, upper, kept) = (memory(), memory(), memory());
        let mut driver = Driver::new(Rules::default());
        fill(&mut driver, &*lower, before)?;
        let fs = overlay(&[&upper, &lower]);
        driver.drive(&*fs, &during)?;
        driver.close();
        fs.keep(&*kept).map_err(|error| format!("keep: {error}"))?;
        driver.compare(&*overlay(&[&kept, &lower])).map_err(|text| format!("kept: {text}"))?;
        let changes = fs.changes().map_err(|error| format!("changes: {error}"))?;
        let applied = match through_another {
            // Another object than the lower layer: nothing can be moved.
            true => fs.apply(&TracedFs::new(Arc::clone(&lower))),
            false => fs.apply(&*lower),
        };
        applied.map_err(|error| format!("apply {changes:#?}: {error}"))?;
        driver.compare(&*lower).map_err(|text| format!("applied {changes:#?}: {text}"))?;
        driver.drive(&*lower, &after)
    });
}
