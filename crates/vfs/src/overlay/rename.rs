//! Renaming: the rules, and files. Directories are in `rename_dir`.

use crate::backend::Capabilities;
use crate::error::{BackendResult, ErrorKind};
use crate::metadata::Metadata;
use crate::options::RenameMode;
use crate::path::VfsPath;
use crate::watch::WatchKind;

use super::State;
use super::copy_up::Contents;
use super::lookup::Hit;

/// What is left to do after the rules.
enum Verdict {
    Nothing,
    Rename,
}

impl State {
    pub(super) fn rename(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<Metadata> {
        self.upper(from)?;
        {
            let _shared = self.tree.shared();
            self.check_parent(from)?;
            self.check_parent(to)?;
        }
        match mode {
            // Whiteouts are the overlay's own.
            RenameMode::Whiteout => return Err(ErrorKind::Unsupported.into()),
            RenameMode::Exchange => self.needs(Capabilities::EXCHANGE)?,
            RenameMode::Replace | RenameMode::NoReplace => {}
        }
        if from.is_root() || to.is_root() {
            return Err(ErrorKind::Busy.into());
        }
        let done = loop {
            // What would fail, or does nothing, copies nothing.
            let (source, target) = {
                let _shared = self.tree.shared();
                self.rename_ends(from, to)?
            };
            if let Verdict::Nothing = judge(from, to, mode, &source, target.as_ref())? {
                return self.metadata(to);
            }
            if source.is_dir() || target.as_ref().is_some_and(Hit::is_dir) {
                if let Some(done) = self.rename_dir(from, to, mode)? {
                    break done;
                }
                continue;
            }
            if source.layer > 0 {
                self.copy_up(from, Contents::All)?;
            }
            if mode == RenameMode::Exchange && target.is_some_and(|target| target.layer > 0) {
                self.copy_up(to, Contents::All)?;
            }
            if let Some(done) = self.rename_file(from, to, mode)? {
                break done;
            }
        };
        if let Verdict::Rename = done {
            self.watches.report(WatchKind::Removed, from);
            self.watches.report(WatchKind::Created, to);
            if mode == RenameMode::Exchange {
                self.watches.report(WatchKind::Removed, to);
                self.watches.report(WatchKind::Created, from);
            }
        }
        self.metadata(to)
    }

    fn find_any<'p>(&self, path: &'p VfsPath) -> BackendResult<Option<Hit<'p>>> {
        match self.find(path) {
            Ok(hit) => Ok(Some(hit)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What the two names show. A broken way to either comes before a missing source.
    fn rename_ends<'p>(
        &self,
        from: &'p VfsPath,
        to: &'p VfsPath,
    ) -> BackendResult<(Hit<'p>, Option<Hit<'p>>)> {
        self.check_parent(from)?;
        self.check_parent(to)?;
        Ok((self.find(from)?, self.find_any(to)?))
    }

    /// Renames what the upper layer has; `None` when things have changed since they were
    /// prepared.
    fn rename_file(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<Option<Verdict>> {
        let _shared = self.tree.shared();
        self.rename_ends(from, to)?;
        self.make_dir(to.parent().unwrap_or(VfsPath::root()))?;
        let _names = self.names.lock_both(from, to);
        let (source, target) = self.rename_ends(from, to)?;
        if let Verdict::Nothing = judge(from, to, mode, &source, target.as_ref())? {
            return Ok(Some(Verdict::Nothing));
        }
        let unprepared = |hit: &Hit<'_>| hit.layer > 0 || hit.is_dir();
        let target_unprepared = |target: &Hit<'_>| {
            target.is_dir() || (mode == RenameMode::Exchange && target.layer > 0)
        };
        if unprepared(&source) || target.as_ref().is_some_and(target_unprepared) {
            return Ok(None);
        }
        self.note_origin(from, &source)?;
        if let (RenameMode::Exchange, Some(target)) = (mode, &target) {
            self.note_origin(to, target)?;
        }
        if let Some(target) = &target {
            self.note_lower(to, target);
        }
        let mode_above = match mode {
            RenameMode::Exchange => RenameMode::Exchange,
            // Also where nothing may be replaced: all that can be there is a whiteout.
            _ if self.is_covering(from)? => RenameMode::Whiteout,
            _ => RenameMode::Replace,
        };
        self.top().rename(from, to, mode_above)?;
        if target.is_some_and(|target| target.layer > 0) {
            self.copies.count_removal();
        }
        Ok(Some(Verdict::Rename))
    }

    /// The same for directories, whatever layers they are in.
    fn rename_dir(
        &self,
        from: &VfsPath,
        to: &VfsPath,
        mode: RenameMode,
    ) -> BackendResult<Option<Verdict>> {
        let alone = self.tree.exclusive();
        let (source, target) = self.rename_ends(from, to)?;
        if let Verdict::Nothing = judge(from, to, mode, &source, target.as_ref())? {
            return Ok(Some(Verdict::Nothing));
        }
        let lower_file = |hit: &Hit<'_>| hit.layer > 0 && !hit.is_dir();
        if mode == RenameMode::Exchange {
            let Some(target) = target else { return Ok(None) };
            // A file that changes places with a directory must be in the upper layer.
            if lower_file(&source) || lower_file(&target) {
                let path = if lower_file(&source) { from } else { to };
                drop(alone);
                self.copy_up(path, Contents::All)?;
                return Ok(None);
            }
            self.exchange_dirs(from, to)?;
            return Ok(Some(Verdict::Rename));
        }
        if !source.is_dir() {
            return Ok(None);
        }
        if let Some(target) = &target {
            self.must_be_empty(to)?;
            self.note_lower(to, target);
        }
        self.move_dir(from, to, target.is_some_and(|target| target.layer == 0))?;
        Ok(Some(Verdict::Rename))
    }
}

/// The contract's rules, in its order, but for the emptiness of a replaced directory.
fn judge(
    from: &VfsPath,
    to: &VfsPath,
    mode: RenameMode,
    source: &Hit<'_>,
    target: Option<&Hit<'_>>,
) -> BackendResult<Verdict> {
    let below = |path: &VfsPath, base: &VfsPath| path != base && path.starts_with(base);
    if mode == RenameMode::Exchange && target.is_none() {
        return Err(ErrorKind::NotFound.into());
    }
    if below(to, from) || (mode == RenameMode::Exchange && below(from, to)) {
        return Err(ErrorKind::InvalidArgument.into());
    }
    let Some(target) = target else { return Ok(Verdict::Rename) };
    if mode == RenameMode::NoReplace {
        return Err(ErrorKind::AlreadyExists.into());
    }
    let same_file = source.layer == target.layer && source.metadata.id == target.metadata.id;
    if from == to || (same_file && !source.is_dir()) {
        return Ok(Verdict::Nothing);
    }
    if mode == RenameMode::Exchange {
        return Ok(Verdict::Rename);
    }
    match (source.is_dir(), target.is_dir()) {
        (false, true) => Err(ErrorKind::IsADirectory.into()),
        (true, false) => Err(ErrorKind::NotADirectory.into()),
        _ => Ok(Verdict::Rename),
    }
}
