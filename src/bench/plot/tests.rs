//! Tests of reading, grouping and drawing.

use super::reading::{parse, read};
use super::scale::{median, number};
use super::svg::escaped;
use super::{chart, series};

const RUN: &str = r#"machine: 2 cores
server: server_version 17
{"no": "outcome"}
{"bench":"workflows","mode":"execute","clients":8,"seconds":1,"ops_per_s":400,"p50_us":900,"p95_us":1500,"p99_us":2500,"errors":0,"server_cpu_us":null}
{ not JSON
"#;

fn drawn(files: &[(&str, &str)]) -> String {
    let runs = files.iter().flat_map(|(name, text)| parse(name, text)).collect();
    chart::draw(&series::group(runs))
}

/// Whether each element is closed, and in its order.
fn is_well_formed(text: &str) -> bool {
    let mut open = Vec::new();
    for part in text.split('<').skip(1) {
        let Some((tag, rest)) = part.split_once('>') else {
            return false;
        };
        if rest.contains('>') {
            return false;
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return false;
            }
        } else if !tag.ends_with('/') {
            open.push(tag.split(' ').next().unwrap());
        }
    }
    open.is_empty()
}

#[test]
fn results_are_found_among_other_lines() {
    let runs = parse("a", RUN);
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].environment, ["machine: 2 cores", "server: server_version 17"]);
    assert!(parse("a", r#"{"bench":"x"} {"bench":"y","ops_per_s":1}"#).is_empty());
    assert!(parse("a", r#"{"bench":"x","ops_per_s":-1,"p50_us":"fast","p95_us":1e300}"#).is_empty());
}

#[test]
fn a_file_without_a_result_is_named() {
    let file = std::env::temp_dir().join(format!("mainspring-plot-{}.txt", std::process::id()));
    std::fs::write(&file, "nothing").unwrap();
    let failure = read(std::slice::from_ref(&file)).unwrap_err().redacted();
    std::fs::write(&file, vec![b' '; (16 << 20) + 1]).unwrap();
    let large = read(std::slice::from_ref(&file)).unwrap_err().redacted();
    std::fs::remove_file(&file).unwrap();
    let missing = read(std::slice::from_ref(&file)).unwrap_err().redacted();
    for message in [&failure, &large, &missing] {
        assert!(message.contains(&*file.to_string_lossy()), "{message}");
    }
    assert!(
        failure.contains("no result") && large.contains("16 MiB"),
        "{failure} {large}"
    );
}

#[test]
fn repetitions_are_one_bar_with_a_dot_each() {
    let again = RUN.replace("400", "500") + &RUN.replace("400", "900");
    let picture = drawn(&[("a", RUN), ("b", RUN), ("a", &again)]);
    assert!(is_well_formed(&picture), "{picture}");
    assert!(
        picture.contains("a: workflows, execute (median of 3 runs)"),
        "{picture}"
    );
    assert!(picture.contains("measured: 500 per second"), "{picture}");
    // Throughput and three latencies.
    assert_eq!(picture.matches("<circle").count(), 12);
    assert!(picture.contains("8 clients, over 1 s") && picture.contains("machine: 2 cores"));
    assert_eq!(picture, drawn(&[("a", RUN), ("b", RUN), ("a", &again)]));
}

#[test]
fn different_settings_are_in_the_legend() {
    let picture = drawn(&[("a", RUN), ("a", &RUN.replace(":8,", ":64,"))]);
    assert!(picture.contains("a: workflows, execute, 8 clients<") && picture.contains("execute, 64 clients<"));
    assert!(!picture.contains("<circle"));
}

#[test]
fn a_figure_of_only_one_series_is_omitted_and_errors_are_shown() {
    let failover = r#"{"bench":"failover","fault":"kill","p50_ms":12,"p95_ms":20,"max_ms":30,"lost":2}"#;
    let picture = drawn(&[("a", RUN), ("b", failover)]);
    assert!(
        picture.contains("Latency, ms") && picture.contains("12 ms") && picture.contains("0.9 ms"),
        "{picture}"
    );
    assert!(!picture.contains("Throughput") && !picture.contains("p99"));
    assert!(picture.contains("not to be compared: 2 lost"));
}

#[test]
fn one_error_is_singular() {
    let with = |errors: &str| RUN.replace("\"errors\":0", &format!("\"errors\":{errors},\"twice\":1"));
    assert!(drawn(&[("a", &with("1"))]).contains("not to be compared: 1 error, 1 ran twice<"));
    assert!(drawn(&[("a", &with("2"))]).contains("not to be compared: 2 errors, 1 ran twice<"));
}

#[test]
fn bars_of_zero_have_no_height() {
    let nothing = r#"{"bench":"workflows","ops_per_s":0,"p50_us":0,"wal_bytes":0,"flushes":0}"#;
    let picture = drawn(&[("a", nothing), ("b", nothing)]);
    let bars: Vec<&str> = picture
        .lines()
        .filter(|line| line.contains("</title></rect>"))
        .collect();
    assert_eq!(bars.len(), 8, "{picture}");
    for bar in bars {
        assert!(bar.contains(r#" height="0.0""#) && bar.contains(": 0"), "{bar}");
    }
    assert!(is_well_formed(&picture) && !picture.contains("NaN"), "{picture}");
}

#[test]
fn names_are_escaped() {
    let picture = drawn(&[("</svg>&\u{1}\"", RUN)]);
    assert!(
        is_well_formed(&picture) && picture.contains("&lt;/svg&gt;&amp;\u{fffd}&quot;"),
        "{picture}"
    );
    assert_eq!(escaped("a'\n<"), "a&apos; &lt;");
}

#[test]
fn numbers_are_rounded() {
    for (value, text) in [
        (0.0, "0"),
        (0.0213, "0.021"),
        (1.5, "1.5"),
        (26.25, "26.2"),
        (12_345.6, "12,346"),
    ] {
        assert_eq!(number(value), text);
    }
    assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    assert_eq!(median(&[]), None);
}
