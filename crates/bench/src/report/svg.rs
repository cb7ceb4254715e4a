//! Bar charts: for each scenario a panel, in it a group of bars for each target, one bar for
//! each number of threads. The axis is logarithmic, and bars start at 1, the baseline: to the
//! right is faster than C streams, to the left slower.

use std::fmt::Write;

use super::numbers::{short, significant};
use super::{Report, Row};

const COLUMNS: usize = 3;
const PANEL: f64 = 490.0;
const LABELS: f64 = 172.0;
const VALUES: f64 = 60.0;
const PLOT: f64 = PANEL - LABELS - VALUES - 10.0;
const TITLE: f64 = 46.0;
const AXIS: f64 = 22.0;
const BAR: f64 = 9.0;
const GROUP_GAP: f64 = 6.0;
const HEAD: f64 = 92.0;
const MARGIN: f64 = 18.0;

/// For one, two, ... numbers of threads; told apart also without colour, by lightness.
const COLOURS: [&str; 5] = ["#1b4f8a", "#4f9bd9", "#e08a1e", "#f3c04f", "#7a9a3a"];

pub(super) fn write(report: &Report) -> String {
    let threads = report.thread_counts();
    let scenarios = report.scenarios();
    let panels: Vec<Panel<'_>> =
        scenarios.iter().map(|scenario| Panel::new(report, scenario, &threads)).collect();
    let rows: Vec<&[Panel<'_>]> = panels.chunks(COLUMNS).collect();
    let height_of = |row: &[Panel<'_>]| row.iter().map(Panel::height).fold(0.0, f64::max) + MARGIN;
    let height = HEAD + rows.iter().map(|row| height_of(row)).sum::<f64>() + MARGIN;
    let width = MARGIN * 2.0 + PANEL * COLUMNS.min(panels.len().max(1)) as f64;
    let width = width.max(900.0);

    let mut svg = Svg::new(width, height);
    head(&mut svg, report, &threads);
    let mut y = HEAD;
    for row in rows {
        for (column, panel) in row.iter().enumerate() {
            panel.draw(&mut svg, MARGIN + column as f64 * PANEL, y);
        }
        y += height_of(row);
    }
    svg.finish()
}

fn head(svg: &mut Svg, report: &Report, threads: &[usize]) {
    let heading = report.heading();
    svg.text(MARGIN, 26.0, "title", "Throughput relative to C streams (base:stdio)");
    let machine = format!("{}, {}, {}", heading.cpu, heading.memory, heading.kernel);
    svg.text(MARGIN, 44.0, "note", &machine);
    let how = format!("{} build, {}: {}", heading.build, heading.method, heading.command);
    svg.text(MARGIN, 58.0, "note", &how);
    let mut x = MARGIN;
    for (index, threads) in threads.iter().enumerate() {
        svg.rect(x, 68.0, 10.0, 10.0, colour(index));
        let plural = if *threads == 1 { "" } else { "s" };
        svg.text(x + 14.0, 77.0, "label", &format!("{threads} thread{plural}"));
        x += 84.0;
    }
}

fn colour(index: usize) -> &'static str {
    COLOURS[index % COLOURS.len()]
}

/// One scenario.
struct Panel<'a> {
    scenario: &'a str,
    baseline: String,
    /// Each target's bars: which of the numbers of threads, and its row.
    groups: Vec<(&'static str, Vec<(usize, &'a Row)>)>,
    /// The ends of the axis, powers of ten.
    axis: (i32, i32),
}

impl<'a> Panel<'a> {
    fn new(report: &'a Report, scenario: &'a str, threads: &[usize]) -> Self {
        let bars = |target| -> Vec<(usize, &Row)> {
            let rows = threads.iter().enumerate();
            rows.filter_map(|(index, &threads)| {
                let row = report.find(scenario, target, threads)?;
                row.vs_stdio.map(|_| (index, row))
            })
            .collect()
        };
        let is_baseline = |target: &&str| *target == super::BASELINE;
        let baseline = bars(super::BASELINE);
        let speeds: Vec<_> = baseline.iter().map(|(_, row)| short(row.ops_per_s)).collect();
        let targets = report.targets().into_iter().filter(|target| !is_baseline(target));
        let groups: Vec<_> = targets
            .map(|target| (target, bars(target)))
            .filter(|(_, bars)| !bars.is_empty())
            .collect();
        let ratios =
            || groups.iter().flat_map(|(_, bars)| bars).filter_map(|(_, row)| row.vs_stdio);
        // At least from a tenth to ten times; nothing is drawn beyond a hundred-thousandth.
        let low = ratios().fold(0.1, f64::min).max(1e-5).log10().floor() as i32;
        let high = ratios().fold(10.0, f64::max).log10().ceil() as i32;
        Panel { scenario, baseline: speeds.join(" / "), groups, axis: (low, high) }
    }

    fn height(&self) -> f64 {
        let bars: usize = self.groups.iter().map(|(_, bars)| bars.len()).sum();
        TITLE + AXIS + bars as f64 * BAR + self.groups.len() as f64 * GROUP_GAP
    }

    /// Where a ratio lies on the axis.
    fn place(&self, ratio: f64) -> f64 {
        let (low, high) = (f64::from(self.axis.0), f64::from(self.axis.1));
        let part = (ratio.max(1e-9).log10() - low) / (high - low);
        LABELS + PLOT * part.clamp(0.0, 1.0)
    }

    fn draw(&self, svg: &mut Svg, x: f64, y: f64) {
        svg.text(x, y + 16.0, "scenario", self.scenario);
        let baseline = format!("1 = {} operations/s", self.baseline);
        svg.text(x, y + 31.0, "note", &baseline);
        let bottom = y + self.height() - AXIS;
        for power in self.axis.0..=self.axis.1 {
            let at = x + self.place(10f64.powi(power));
            svg.line(at, y + TITLE - 6.0, bottom, if power == 0 { "one" } else { "grid" });
            let name = if power < 0 {
                significant(10f64.powi(power), 1)
            } else {
                format!("{:.0}", 10f64.powi(power))
            };
            svg.text(at, bottom + 13.0, "tick", &name);
        }
        let mut top = y + TITLE;
        for (target, bars) in &self.groups {
            let middle = top + bars.len() as f64 * BAR / 2.0 + 3.5;
            svg.text(x + LABELS - 6.0, middle, "target", target);
            for (index, row) in bars {
                let ratio = row.vs_stdio.unwrap_or(1.0);
                let (one, end) = (self.place(1.0), self.place(ratio));
                // A ratio of 1 still shows as a line.
                let wide = (end - one).abs().max(1.0);
                svg.rect(x + one.min(end), top, wide, BAR - 1.0, colour(*index));
                let value = significant(ratio, 3);
                svg.text(x + one.max(end) + 4.0, top + BAR - 2.0, "value", &value);
                top += BAR;
            }
            top += GROUP_GAP;
        }
    }
}

/// The elements that the charts are drawn with.
struct Svg(String);

impl Svg {
    fn new(width: f64, height: f64) -> Self {
        let mut text = String::new();
        let _ = write!(
            text,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\">\n\
             <style>\n\
             text {{ fill: #222; font-size: 11px }}\n\
             .title {{ font-size: 19px; font-weight: bold }}\n\
             .scenario {{ font-size: 14px; font-weight: bold }}\n\
             .note {{ fill: #666 }}\n\
             .target {{ text-anchor: end }}\n\
             .tick {{ text-anchor: middle; fill: #666; font-size: 10px }}\n\
             .value {{ font-size: 9px }}\n\
             .grid {{ stroke: #ddd }}\n\
             .one {{ stroke: #333 }}\n\
             </style>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        Svg(text)
    }

    fn text(&mut self, x: f64, y: f64, class: &str, text: &str) {
        let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let _ = writeln!(self.0, "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{text}</text>");
    }

    fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        let _ = writeln!(
            self.0,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" \
             fill=\"{fill}\"/>"
        );
    }

    fn line(&mut self, x: f64, top: f64, bottom: f64, class: &str) {
        let _ = writeln!(
            self.0,
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" \
             class=\"{class}\"/>"
        );
    }

    fn finish(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Report, example};

    /// Elements open and close in order, attributes are quoted, text is escaped.
    fn check(svg: &str) {
        let mut open = Vec::new();
        for part in svg.split('<').skip(1) {
            let (tag, text) = part.split_once('>').expect("every tag ends");
            assert!(!text.contains('&') || text.contains("&amp;") || text.contains("&lt;"));
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            let name = tag.split([' ', '/']).find(|name| !name.is_empty()).expect("a name");
            if tag.starts_with('/') {
                assert_eq!(open.pop(), Some(name));
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert!(open.is_empty());
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn charts_are_well_formed() {
        let report = example();
        let svg = report.to_svg();
        check(&svg);
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains(">vfs:memory</text>") && svg.contains(">5.00</text>"));
        let mut nothing: Report = report.clone();
        nothing.rows.clear();
        nothing.heading.command = "a < b & c > d".to_owned();
        check(&nothing.to_svg());
    }
}
