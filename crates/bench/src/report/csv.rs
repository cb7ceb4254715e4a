//! CSV, for other programs.

use std::fmt::Write;

use super::Report;
use super::numbers::{optional, significant};

const COLUMNS: &str = "scenario,target,threads,ops_per_s,mib_per_s,p50_us,p99_us,vs_stdio";

pub(super) fn write(report: &Report) -> String {
    let mut text = format!("{COLUMNS}\n");
    for row in report.rows() {
        // No name of a scenario or target has a comma or a quotation mark in it.
        let _ = writeln!(
            text,
            "{},{},{},{},{},{},{},{}",
            row.scenario,
            row.target,
            row.threads,
            significant(row.ops_per_s, 6),
            optional(row.mib_per_s, |value| significant(value, 5)),
            significant(row.p50_us, 4),
            significant(row.p99_us, 4),
            optional(row.vs_stdio, |value| significant(value, 4)),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn columns_are_exactly_these() {
        let csv = super::super::example().to_csv();
        let lines: Vec<_> = csv.lines().collect();
        assert_eq!(lines[0], "scenario,target,threads,ops_per_s,mib_per_s,p50_us,p99_us,vs_stdio");
        assert_eq!(lines[3], "read.small,vfs:memory,1,2000000,7812.5,2.000,2.000,5.000");
        assert_eq!(lines[5], "meta.miss,vfs:memory,1,10.0000,-,2.000,2.000,-");
        assert_eq!(lines.len(), 6);
    }

    #[test]
    fn names_need_no_quoting() {
        for (name, _) in crate::list() {
            assert!(!name.contains([',', '"', '\n']), "{name}");
        }
    }
}
