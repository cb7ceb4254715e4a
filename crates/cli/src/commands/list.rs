//! `strata list`.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;
use stratafs::{Detail, FileSystem, VfsPathBuf};

use crate::archives::{OpenArgs, inner_path, kind, mode, shown};
use crate::exit::{Outcome, Status};
use crate::output::{JsonName, Output};

/// List what an archive holds.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The archive, or the zip file that it is in.
    archive: PathBuf,
    /// Only this path and what is below it.
    path: Option<OsString>,
    /// Show type, mode, owner, size and time, too.
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    path: JsonName,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: u32,
    user: u32,
    group: u32,
    size: u64,
    stored_size: u64,
    modified: i64,
    modified_nanos: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let archive = args.open.open(&args.archive)?;
    let top = match &args.path {
        Some(path) => inner_path(path)?,
        None => VfsPathBuf::new(),
    };
    let mut next = vec![top];
    while let Some(path) = next.pop() {
        let at = |error: stratafs::BackendError| error.at("list", &path);
        let metadata = archive.metadata(&path).map_err(at)?;
        if metadata.is_dir() {
            let start = next.len();
            let mut bad = None;
            let listed = archive.read_dir(&path, Detail::Names, &mut |entry| {
                match path.join_name(entry.name) {
                    Ok(child) => next.push(child),
                    Err(error) => bad = Some(error),
                }
                ControlFlow::Continue(())
            });
            listed.and_then(|()| bad.map_or(Ok(()), Err)).map_err(at)?;
            next[start..].reverse();
        }
        if path.is_root() {
            continue;
        }
        let target = match metadata.is_symlink() {
            true => Some(archive.read_link(&path).map_err(at)?),
            false => None,
        };
        let mut text = shown(&path);
        if args.long {
            let owner = format!("{}:{}", metadata.owner.user, metadata.owner.group);
            let seconds = metadata.modified.seconds;
            text = format!(
                "{} {owner:>11} {:>12} {seconds:>11} {text}",
                mode(&metadata),
                metadata.len
            );
            if let Some(target) = &target {
                text = format!("{text} -> {}", target.escape_ascii());
            }
        }
        let record = Record {
            path: JsonName::new(path.as_bytes()),
            kind: kind(metadata.file_type),
            mode: metadata.mode,
            user: metadata.owner.user,
            group: metadata.owner.group,
            size: metadata.len,
            stored_size: metadata.allocated,
            modified: metadata.modified.seconds,
            modified_nanos: metadata.modified.nanoseconds,
            target: target.map(|target| String::from_utf8_lossy(&target).into_owned()),
        };
        output.record(text, &record)?;
    }
    Ok(Status::Done)
}
