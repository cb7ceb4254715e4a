//! The whole suite on very little data: everything runs and every result is there.

use std::fs;

use stratafs_bench::{Event, Options, run};

#[test]
fn every_scenario_runs_on_every_target_that_takes_part() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| Some(dir.path().join(name));
    let options = Options {
        scale: 0.001,
        threads: "1,2".parse().unwrap(),
        iterations: 1,
        csv: file("out.csv"),
        markdown: file("out.md"),
        svg: file("out.svg"),
        dir: Some(dir.path().to_owned()),
        ..Options::default()
    };
    let mut told = 0;
    let report = run(&options, &mut |event| {
        told += usize::from(matches!(event, Event::Row(_)));
        Ok(())
    })
    .unwrap();
    assert_eq!(told, report.rows().len());

    let names = |dotted: bool| {
        stratafs_bench::list()
            .map(|(name, _)| name)
            .filter(move |name| name.contains(':') != dotted)
    };
    let mut expected = 0;
    for scenario in names(true) {
        for target in names(false) {
            let writes = ["base:stdio", "base:std", "base:posix", "ceiling:map"].contains(&target)
                || ["vfs:native", "vfs:memory", "vfs:memory+archive"].contains(&target);
            if scenario.starts_with("write.") && !writes {
                continue;
            }
            for threads in [1, 2] {
                let row = report.find(scenario, target, threads);
                let row = row.unwrap_or_else(|| panic!("no row {scenario} {target} {threads}"));
                let ratio = row.vs_stdio.unwrap();
                for value in [row.ops_per_s, row.p50_us, row.p99_us, ratio] {
                    assert!(value > 0.0 && value.is_finite(), "{row:?}");
                }
                assert_eq!(row.mib_per_s.is_none(), scenario.starts_with("meta."), "{row:?}");
                expected += 1;
            }
        }
    }
    assert_eq!(report.rows().len(), expected);
    assert_eq!(names(true).count(), 13);

    let ciphers = report.ciphers();
    assert_eq!(ciphers.len(), 4);
    assert!(ciphers.iter().all(|speed| speed.mib_per_s > 0.0), "{ciphers:?}");

    let csv = fs::read_to_string(dir.path().join("out.csv")).unwrap();
    assert_eq!(csv.lines().count(), expected + 1);
    assert_eq!(fs::read_to_string(dir.path().join("out.md")).unwrap(), report.to_markdown());
    assert_eq!(fs::read_to_string(dir.path().join("out.svg")).unwrap(), report.to_svg());
    // The data is gone, the results are not.
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn a_cold_run_and_kept_data() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        scale: 0.001,
        threads: "2".parse().unwrap(),
        iterations: 2,
        filter: "read.small/base,meta.stat/vfs:native".parse().unwrap(),
        dir: Some(dir.path().to_owned()),
        cold: true,
        keep: true,
        ..Options::default()
    };
    let mut notes = String::new();
    let report = run(&options, &mut |event| {
        if let Event::Note(text) = event {
            notes.push_str(text);
        }
        Ok(())
    })
    .unwrap();
    assert_eq!(report.rows().len(), 4);
    assert!(report.find("meta.stat", "vfs:native", 2).unwrap().vs_stdio.is_none());
    let kept: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(kept.len(), 1);
    assert!(notes.contains(kept[0].to_str().unwrap()));
    assert_eq!(fs::metadata(kept[0].join("data/small/asset-00000.txt")).unwrap().len(), 4096);
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let place = Some("/no/such/place/results.csv".into());
    for (options, part) in [
        (Options { scale: 0.0, ..Options::default() }, "scale"),
        (Options { filter: "nothing".parse().unwrap(), ..Options::default() }, "filter"),
        (Options { csv: place, ..Options::default() }, "/no/such/place"),
    ] {
        let error = run(&options, &mut |_| panic!("it began")).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
}
