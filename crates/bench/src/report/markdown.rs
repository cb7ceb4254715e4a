//! A page of Markdown: the machine, the ratios at a glance, then every figure.

use std::fmt::Write;

use super::Report;
use super::numbers::{optional, short, significant};

pub(super) fn write(report: &Report) -> String {
    let mut text = String::from("# Benchmark results\n\n");
    for (name, value) in report.heading().lines() {
        let code = if name == "command" { "`" } else { "" };
        let _ = writeln!(text, "- {name}: {code}{value}{code}");
    }
    for threads in report.thread_counts() {
        overview(&mut text, report, threads);
    }
    ciphers(&mut text, report);
    for scenario in report.scenarios() {
        details(&mut text, report, scenario);
    }
    text
}

fn overview(text: &mut String, report: &Report, threads: usize) {
    let plural = if threads == 1 { "" } else { "s" };
    let _ = writeln!(text, "\n## Throughput relative to base:stdio, {threads} thread{plural}\n");
    let scenarios = report.scenarios();
    let _ = writeln!(text, "| target | {} |", scenarios.join(" | "));
    let _ = writeln!(text, "|---|{}", "---:|".repeat(scenarios.len()));
    for target in report.targets() {
        let cells = scenarios.iter().map(|scenario| {
            let row = report.find(scenario, target, threads);
            optional(row.and_then(|row| row.vs_stdio), |value| significant(value, 3))
        });
        let _ = writeln!(text, "| {target} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn ciphers(text: &mut String, report: &Report) {
    if report.ciphers().is_empty() {
        return;
    }
    text.push_str("\n## The ciphers by themselves\n\nDecryption in memory, one thread.\n\n");
    text.push_str("| cipher | bytes at once | MiB/s |\n|---|---:|---:|\n");
    for cipher in report.ciphers() {
        let speed = significant(cipher.mib_per_s, 3);
        let _ = writeln!(text, "| {} | {} | {speed} |", cipher.name, cipher.block);
    }
}

fn details(text: &mut String, report: &Report, scenario: &str) {
    let about = crate::list().find(|(name, _)| *name == scenario).map_or("", |(_, about)| about);
    let _ = writeln!(text, "\n## {scenario}\n\nOne operation: {about}.\n");
    text.push_str("| target | threads | ops/s | MiB/s | p50 us | p99 us | vs stdio |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|\n");
    for row in report.rows().iter().filter(|row| row.scenario == scenario) {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} |",
            row.target,
            row.threads,
            short(row.ops_per_s),
            optional(row.mib_per_s, |value| significant(value, 3)),
            significant(row.p50_us, 3),
            significant(row.p99_us, 3),
            optional(row.vs_stdio, |value| significant(value, 3)),
        );
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_row_has_a_line_and_every_table_its_shape() {
        let report = super::super::example();
        let page = report.to_markdown();
        assert!(page.contains("| vfs:memory | 2 | 3.50M | 13672 | 2.00 | 2.00 | 5.00 |"));
        assert!(page.contains("| vfs:memory | 5.00 | - |"));
        assert!(page.contains("| base:cipher-xor | 65536 | 9000 |"));
        assert!(page.contains("- build: "));
        let mut columns = 0;
        for line in page.lines() {
            match line.strip_prefix('|') {
                None => columns = 0,
                Some(cells) if columns == 0 => columns = cells.matches('|').count(),
                Some(cells) => assert_eq!(cells.matches('|').count(), columns, "{line}"),
            }
        }
    }
}
