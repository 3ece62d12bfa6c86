//! How long a lookup takes: `cargo test --release -p mainspring-route speed -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{path, table};
use crate::RequestPath;

/// The most that a lookup among 10,000 routes may take.
const MOST: Duration = Duration::from_micros(5);

#[test]
#[ignore = "it measures a release build"]
fn a_lookup_among_ten_thousand_routes_takes_microseconds() {
    let literals = (0..9_000).map(|n| format!("area{}/service{}/action{n}", n % 30, n % 300));
    let parameters = (0..1_000).map(|n| match n % 5 {
        0 => format!("area{}/service{}/items{n}/{{id:int}}", n % 30, n % 300),
        1 => format!("area{}/{{service}}/orders{n}/{{id}}/lines/{{line?}}", n % 30),
        2 => format!("customers{}/{{id:guid}}/{{part}}/step{n}", n % 50),
        3 => format!("files{n}/{{name}}.{{ext?}}"),
        _ => format!("assets{n}/{{*rest}}"),
    });
    let sources: Vec<String> = literals.chain(parameters).collect();
    let started = Instant::now();
    let table = table(sources.iter().map(String::as_str));
    println!("{} routes are inserted in {:?}", table.len(), started.elapsed());
    let raws = [
        ("a literal", "/area7/service7/action3907"),
        ("a literal in other case, with a slash", "/Area7/Service7/Action3907/"),
        ("a number", "/area5/service35/items335/4711"),
        ("two parameters", "/area1/billing/orders1/17/lines/3"),
        ("a Guid", "/customers2/cd2c1638-1638-72d5-1638-deadbeef1638/x/step2"),
        ("a file", "/files3/report.final.pdf"),
        ("a catch-all", "/assets4/img/logo/large.png"),
        ("escapes", "/area1/b%C3%A9%20c/orders1/a%2Fb/lines"),
        ("nothing", "/area1/service1/action1/nothing"),
    ];
    const ROUNDS: u32 = 200_000;
    for (what, raw) in raws {
        assert_eq!(
            what == "nothing",
            matches!(table.lookup(&path(raw), "GET"), crate::Lookup::NotFound),
            "{what}"
        );
        let started = Instant::now();
        for _ in 0..ROUNDS {
            let path = RequestPath::parse(black_box(raw)).unwrap();
            if let crate::Lookup::Found(routes) = table.lookup(&path, "GET") {
                black_box(routes[0].template().values(&path));
            }
        }
        let each = started.elapsed() / ROUNDS;
        println!("{what}: {each:?}");
        assert!(each < MOST, "{what}: {each:?}");
    }
}

/// Templates that differ in which segments are parameters, and paths that all of them nearly match.
#[test]
fn a_lookup_sees_each_node_once() {
    let sources = (0..4_096_u32).map(|bits| {
        let segments = (0..12).map(|at| {
            if bits >> at & 1 == 0 {
                "a".to_owned()
            } else {
                format!("{{p{at}}}")
            }
        });
        segments.collect::<Vec<_>>().join("/") + "/end"
    });
    let sources: Vec<String> = sources.collect();
    let table = table(sources.iter().map(String::as_str));
    let raw = format!("/{}no", "a/".repeat(12));
    let started = Instant::now();
    assert!(matches!(table.lookup(&path(&raw), "GET"), crate::Lookup::NotFound));
    // A search that saw nodes again would see millions. The time is that of a debug build on a busy machine.
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}
