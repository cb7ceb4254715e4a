//! Every target with its seeds and with seeded mutations of them.

use stratafs_fuzz::Target;
use stratafs_testkit::tools::Random;

/// Runs the seeds, then each mutated `rounds` times by one to eight changes.
fn run(name: &str, rounds: u64) {
    let target = Target::named(name).expect("a target");
    for (nth, seed) in (target.seeds)().iter().enumerate() {
        (target.run)(seed);
        for round in 0..rounds {
            let mut random = Random::new((nth as u64) << 32 | round);
            let mut input = seed.clone();
            for _ in 0..1 + random.below(8) {
                (target.mutate)(&mut input, &mut random);
            }
            let run = std::panic::catch_unwind(|| (target.run)(&input));
            assert!(run.is_ok(), "{name}: seed {nth}, round {round}");
        }
    }
}

#[test]
fn archive() {
    run("archive", 60);
}

#[test]
fn zip() {
    run("zip", 300);
}

#[test]
fn path() {
    run("path", 500);
}

#[test]
fn stack() {
    run("stack", 500);
}

#[test]
fn glob() {
    run("glob", 40);
}
