//! When a node may be freed: the protocol between opens, closes and removals.
//!
//! A node lives while it has a name or an open handle. Counting handles in the node would make
//! every open of a popular file write one shared cache line, so handles are counted per shard
//! of threads, outside the node, and only a removal adds the shards up.
//!
//! One word per node, its *life*, holds its generation and its number of names. An open first
//! raises its shard's count and then looks at the life; a removal first lowers the life and then
//! looks at the counts. All of it is sequentially consistent, so either the open sees that the
//! last name is gone and steps back, or the removal sees the open. Whoever finds no name and no
//! handle tries to turn the life into the dead state of the next generation; one of them
//! succeeds, and frees.
//!
//! A count raised by an open that steps back can hide the end from others for a moment, so the
//! open looks again itself when it lowers the count. It may then look at a node that was
//! freed and made again meanwhile: the rules hold for any generation, so that is harmless, as
//! long as a node without a name is given its first handle before it comes to life.

use super::sync::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// The number of names that marks a node as dead. No node can have so many.
const DEAD: u32 = u32::MAX;

/// The most names one node may have.
pub(crate) const MAX_LINKS: u32 = 1 << 30;

/// Generation and number of names of one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) generation: u32,
    pub(crate) links: u32,
}

impl State {
    fn pack(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.links)
    }

    fn unpack(word: u64) -> State {
        State { generation: (word >> 32) as u32, links: word as u32 }
    }

    /// Whether this is the node of that generation: it may have no name left, but is not freed.
    #[inline]
    pub(crate) fn is(self, generation: u32) -> bool {
        self.generation == generation && self.links != DEAD
    }

    /// Whether this is the node of that generation and it has a name.
    #[inline]
    pub(crate) fn is_named(self, generation: u32) -> bool {
        self.is(generation) && self.links != 0
    }
}

/// What became of a node that lost a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dropped {
    /// It lives on.
    Lives,
    /// The caller ended its life and has to free it.
    Free,
}

/// The life of one node.
pub(crate) struct Life(AtomicU64);

impl Life {
    /// A dead node of generation 0.
    pub(crate) fn dead() -> Life {
        Life(AtomicU64::new(State { generation: 0, links: DEAD }.pack()))
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        State::unpack(self.0.load(SeqCst))
    }

    /// Brings a dead node to life with this many names. Only its allocator calls this; with no
    /// names, its first handle must be counted already.
    pub(crate) fn begin(&self, links: u32) -> State {
        let state = State { generation: self.state().generation, links };
        self.0.store(state.pack(), SeqCst);
        state
    }

    /// Counts a handle on a node that was found by name. When it answers `false` the node is
    /// gone and the caller must [`release`](Self::release) the count at once.
    #[inline]
    #[must_use]
    pub(crate) fn acquire(&self, count: &AtomicU32, generation: u32) -> bool {
        count.fetch_add(1, SeqCst);
        self.state().is_named(generation)
    }

    /// Gives a handle's count back. `no_handles` adds up all shards of this node.
    #[inline]
    #[must_use]
    pub(crate) fn release(&self, count: &AtomicU32, no_handles: impl FnOnce() -> bool) -> Dropped {
        count.fetch_sub(1, SeqCst);
        let state = self.state();
        if state.links != 0 {
            return Dropped::Lives;
        }
        self.end(state, no_handles)
    }

    /// One more name, unless there is none left and `from_zero` is not set (the caller then
    /// holds a handle), or there are too many.
    pub(crate) fn add_link(&self, generation: u32, from_zero: bool) -> Result<(), AddLink> {
        let mut state = self.state();
        loop {
            if !state.is(generation) || (state.links == 0 && !from_zero) {
                return Err(AddLink::Gone);
            }
            if state.links >= MAX_LINKS {
                return Err(AddLink::TooMany);
            }
            let more = State { links: state.links + 1, ..state };
            match self.0.compare_exchange(state.pack(), more.pack(), SeqCst, SeqCst) {
                Ok(_) => return Ok(()),
                Err(now) => state = State::unpack(now),
            }
        }
    }

    /// One name less. The caller has just taken that name away, so there is one.
    #[must_use]
    pub(crate) fn drop_link(&self, no_handles: impl FnOnce() -> bool) -> Dropped {
        let before = State::unpack(self.0.fetch_sub(1, SeqCst));
        debug_assert!(before.links != 0 && before.links != DEAD);
        if before.links > 1 {
            return Dropped::Lives;
        }
        self.end(State { links: 0, ..before }, no_handles)
    }

    fn end(&self, state: State, no_handles: impl FnOnce() -> bool) -> Dropped {
        if !no_handles() {
            return Dropped::Lives;
        }
        let dead = State { generation: state.generation.wrapping_add(1), links: DEAD };
        match self.0.compare_exchange(state.pack(), dead.pack(), SeqCst, SeqCst) {
            Ok(_) => Dropped::Free,
            Err(_) => Dropped::Lives,
        }
    }
}

/// Why a node got no further name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AddLink {
    Gone,
    TooMany,
}
