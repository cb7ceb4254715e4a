//! `strata diff`.

use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;
use stratafs::archive::{Change, Differences, diff};

use crate::archives::{OpenArgs, shown};
use crate::exit::{Outcome, Status};
use crate::output::{JsonName, Output};

/// Show what differs between two archives.
///
/// One line for each name: A added, D deleted, M modified. Exit code 1 when there is any.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// The old archive.
    old: PathBuf,
    /// The new archive.
    new: PathBuf,
    /// Count a name whose time of change alone differs, too.
    #[arg(long)]
    times: bool,
    #[command(flatten)]
    open: OpenArgs,
}

#[derive(Serialize)]
struct Record {
    #[serde(flatten)]
    path: JsonName,
    change: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    differences: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_size: Option<u64>,
}

pub(crate) fn execute(args: Args, output: &mut Output) -> Outcome {
    let [old, new] = args.open.open_all([&args.old, &args.new])?;
    let mut any = false;
    let mut written = Ok(());
    diff(&old, &new, &mut |path, change| {
        let (letter, word, old, new, differences) = match change {
            Change::Added(new) => ('A', "added", None, Some(new.len), Vec::new()),
            Change::Removed(old) => ('D', "deleted", Some(old.len), None, Vec::new()),
            Change::Modified { old, new, differences } => {
                if !args.times && differences == Differences::TIME {
                    return ControlFlow::Continue(());
                }
                ('M', "modified", Some(old.len), Some(new.len), words(differences))
            }
        };
        any = true;
        let mut text = format!("{letter} /{}", shown(path));
        if !differences.is_empty() {
            text.push_str(&format!(" ({})", differences.join(", ")));
        }
        let record = Record {
            path: JsonName::new(path.as_bytes()),
            change: word,
            differences,
            old_size: old,
            new_size: new,
        };
        written = output.record(text, &record);
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    })?;
    written?;
    Ok(if any { Status::No } else { Status::Done })
}

fn words(differences: Differences) -> Vec<&'static str> {
    let all = [
        (Differences::TYPE, "type"),
        (Differences::CONTENTS, "contents"),
        (Differences::MODE, "mode"),
        (Differences::OWNER, "owner"),
        (Differences::TIME, "time"),
        (Differences::XATTRS, "xattrs"),
    ];
    all.into_iter().filter(|(bit, _)| differences.contains(*bit)).map(|(_, word)| word).collect()
}
