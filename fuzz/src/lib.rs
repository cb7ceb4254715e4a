//! The fuzzer's side of the targets in `stratafs_fuzz`.

pub use libfuzzer_sys;

use stratafs_fuzz::Target;
use stratafs_testkit::tools::Random;

/// The program of a target.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        use $crate::libfuzzer_sys;
        libfuzzer_sys::fuzz_target!(|data: &[u8]| (stratafs_fuzz::$name::TARGET.run)(data));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $crate::mutate(stratafs_fuzz::$name::TARGET, data, size, max_size, seed)
        });
    };
}

/// Half of the changes are the fuzzer's own, which knows what comparisons the program makes,
/// half the target's, which knows the form of its input.
pub fn mutate(target: Target, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut random = Random::new(seed.into());
    if random.below(2) == 0 {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    }
    let mut input = data[..size].to_vec();
    for _ in 0..1 + random.below(4) {
        (target.mutate)(&mut input, &mut random);
    }
    let len = input.len().min(max_size);
    data[..len].copy_from_slice(&input[..len]);
    len
}
