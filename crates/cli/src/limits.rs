//! Limits of this process and machine.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Lets this process open as many files as it may: each file that is open through a mount is
/// open here too. Gives the limit as it was, for processes that are started from here: many
/// programs do not expect a high one.
pub fn raise_open_files() -> Rlimit {
    let before = getrlimit(Resource::Nofile);
    // Where it cannot be raised, it stays as it is.
    let _ =
        setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum });
    before
}

/// Half of the memory that this process may use, in bytes: of the machine's, what a tmpfs holds
/// by default too, or of its control group's where that has less.
pub fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let machine = info.totalram.saturating_mul(info.mem_unit.into());
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let limit = limit.and_then(|group| group_limit(Path::new("/sys/fs/cgroup"), group));
    limit.map_or(machine, |limit| limit.min(machine)) / 2
}

/// The least limit of a control group (version 2) and those above it.
fn group_limit(root: &Path, group: &str) -> Option<u64> {
    let own = root.join(group);
    let groups = own.ancestors().take_while(|above| above.starts_with(root));
    groups
        .filter_map(|group| std::fs::read_to_string(group.join("memory.max")).ok())
        .filter_map(|limit| limit.trim().parse().ok()) // "max" is none
        .min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_above_counts() {
        let root = tempfile::tempdir().unwrap();
        let limit = || group_limit(root.path(), "a/b");
        std::fs::create_dir_all(root.path().join("a/b")).unwrap();
        assert_eq!(limit(), None);
        for (file, text, least) in [
            ("a/b/memory.max", "max\n", None),
            ("memory.max", "4000\n", Some(4000)),
            ("a/memory.max", "3000\n", Some(3000)),
            ("a/b/memory.max", "5000\n", Some(3000)),
        ] {
            std::fs::write(root.path().join(file), text).unwrap();
            assert_eq!(limit(), least);
        }
    }
}
