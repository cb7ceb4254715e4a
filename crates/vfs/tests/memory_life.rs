//! The life of a node under a model checker: the very file of the memory backend, compiled
//! against shuttle's atomics. The protocol rests on sequential consistency, which is what
//! shuttle explores.

mod sync {
    pub use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

#[allow(dead_code)]
#[path = "../src/memory/life.rs"]
mod life;

use std::sync::Arc;

use life::{AddLink, Dropped, Life};
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;

/// A node with one handle counter for each of three shards.
struct Node {
    life: Life,
    counts: [AtomicU32; 3],
    frees: AtomicU32,
    live_handles: AtomicU32,
}

impl Node {
    fn with_links(links: u32) -> Arc<Node> {
        let node = Node {
            life: Life::dead(),
            counts: std::array::from_fn(|_| AtomicU32::new(0)),
            frees: AtomicU32::new(0),
            live_handles: AtomicU32::new(0),
        };
        node.life.begin(links);
        Arc::new(node)
    }

    fn no_handles(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::SeqCst) == 0)
    }

    fn after(&self, dropped: Dropped) {
        if dropped == Dropped::Free {
            assert_eq!(self.live_handles.load(Ordering::SeqCst), 0, "freed under a handle");
            self.frees.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn open(&self, shard: usize, generation: u32) -> bool {
        let held = self.life.acquire(&self.counts[shard], generation);
        if held {
            self.live_handles.fetch_add(1, Ordering::SeqCst);
            assert!(self.life.state().is(generation), "a handle on a dead node");
        } else {
            self.release(shard);
        }
        held
    }

    fn close(&self, shard: usize) {
        self.live_handles.fetch_sub(1, Ordering::SeqCst);
        self.release(shard);
    }

    fn release(&self, shard: usize) {
        self.after(self.life.release(&self.counts[shard], || self.no_handles()));
    }

    fn unlink(&self) {
        self.after(self.life.drop_link(|| self.no_handles()));
    }
}

/// Many schedules, chosen from a fixed seed.
fn check(test: impl Fn() + Send + Sync + 'static) {
    let scheduler = shuttle::scheduler::RandomScheduler::new_from_seed(7, 4_000);
    shuttle::Runner::new(scheduler, shuttle::Config::default()).run(test);
}

#[test]
fn a_node_is_freed_once_and_never_under_a_handle() {
    check(|| {
        let node = Node::with_links(1);
        let threads: Vec<_> = (0..2)
            .map(|shard| {
                let node = Arc::clone(&node);
                thread::spawn(move || {
                    if node.open(shard, 0) {
                        node.close(shard);
                    }
                })
            })
            .collect();
        node.unlink();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(node.frees.load(Ordering::SeqCst), 1);
        assert!(!node.life.state().is(0));
    });
}

#[test]
fn links_and_unlinks_and_opens_race() {
    check(|| {
        let node = Node::with_links(1);
        let linker = {
            let node = Arc::clone(&node);
            thread::spawn(move || match node.life.add_link(0, false) {
                Ok(()) => node.unlink(),
                Err(why) => assert_eq!(why, AddLink::Gone),
            })
        };
        let opener = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                if node.open(2, 0) {
                    node.close(2);
                }
            })
        };
        node.unlink();
        linker.join().unwrap();
        opener.join().unwrap();
        assert_eq!(node.frees.load(Ordering::SeqCst), 1);
    });
}

/// A late opener of the old node must neither keep nor free the one that came after it.
#[test]
fn the_next_node_in_a_cell_is_its_own() {
    check(|| {
        let node = Node::with_links(1);
        let late = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                if node.open(1, 0) {
                    node.close(1);
                }
            })
        };
        node.unlink();
        if node.frees.load(Ordering::SeqCst) == 1 {
            // As for a temporary file: its handle is counted before it comes to life.
            node.counts[0].fetch_add(1, Ordering::SeqCst);
            node.live_handles.fetch_add(1, Ordering::SeqCst);
            let state = node.life.begin(0);
            assert_eq!(state.generation, 1);
            assert!(node.life.state().is(1));
            node.close(0);
            late.join().unwrap();
            assert_eq!(node.frees.load(Ordering::SeqCst), 2);
        } else {
            late.join().unwrap();
            assert_eq!(node.frees.load(Ordering::SeqCst), 1);
        }
    });
}

#[test]
fn a_held_file_without_a_name_gets_one() {
    check(|| {
        let node = Node::with_links(0);
        node.counts[0].fetch_add(1, Ordering::SeqCst);
        node.live_handles.fetch_add(1, Ordering::SeqCst);
        let late = {
            let node = Arc::clone(&node);
            thread::spawn(move || {
                if node.open(1, 0) {
                    node.close(1);
                }
            })
        };
        node.life.add_link(0, true).unwrap();
        node.close(0);
        assert_eq!(node.frees.load(Ordering::SeqCst), 0);
        node.unlink();
        late.join().unwrap();
        assert_eq!(node.frees.load(Ordering::SeqCst), 1);
    });
}
