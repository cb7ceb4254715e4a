#![no_main]
stratafs_fuzz_targets::target!(glob);
