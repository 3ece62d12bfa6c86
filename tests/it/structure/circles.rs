//! No import circle between the production files of a crate.
//!
//! An import counts to the file that defines the item, whatever re-exports it passes through. `use` trees count, and so do
//! paths in the code. A module and the modules inside it may import each other; `mod` lines, `#[cfg(test)]` items and files
//! of tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::modules::{Import, imports};

/// Circles that remain from before the rule. A circle within one of these sets passes; the list only ever shrinks.
const KNOWN: &[&[&str]] = &[];

#[test]
fn no_import_circle_in_the_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut crates = BTreeMap::from([(String::new(), BTreeMap::new())]);
    for top in ["src", "crates"] {
        super::each_file(root, &root.join(top), &mut |path, text| {
            let (name, path) = path.split_at(path.find("src/").unwrap_or_default());
            let files = crates.entry(name.to_owned()).or_default();
            files.insert(path.to_owned(), text.to_owned());
        });
    }
    assert!(crates.len() > 3, "{:?}", crates.keys());
    let circles: Vec<Circle> = crates.values().flat_map(|files| circles(&imports(files))).collect();
    println!("{}", circles.iter().map(show).collect::<Vec<_>>().join("\n"));
    let known = |circle: &&Circle| {
        let mut known = KNOWN.iter();
        !known.any(|known| circle.files.iter().all(|file| known.contains(&file.as_str())))
    };
    let unknown: Vec<String> = circles.iter().filter(known).map(show).collect();
    assert!(
        unknown.is_empty(),
        "import circles; break each, or where a file of a known circle was only renamed, rename it in KNOWN:\n{}",
        unknown.join("\n")
    );
}

/// Files each of which reaches all others by imports.
struct Circle {
    files: BTreeSet<String>,
    imports: Vec<Import>,
}

fn circles(imports: &[Import]) -> Vec<Circle> {
    let mut edges: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        edges.entry(&import.from).or_default().insert(&import.to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = edges.keys().map(|file| (*file, reach(&edges, file))).collect();
    let together = |a: &str, b: &str| {
        let reaches = |a: &str, b: &str| reached.get(a).is_some_and(|files| files.contains(b));
        reaches(a, b) && reaches(b, a)
    };
    let mut circles: Vec<Circle> = Vec::new();
    for file in edges.keys() {
        if !together(file, file) || circles.iter().any(|circle| circle.files.contains(*file)) {
            continue;
        }
        let files: BTreeSet<String> = edges
            .keys()
            .filter(|other| together(file, other))
            .map(|other| (*other).to_owned())
            .collect();
        let inside = |import: &&Import| files.contains(&import.from) && files.contains(&import.to);
        let imports = imports.iter().filter(inside).cloned().collect();
        circles.push(Circle { files, imports });
    }
    circles
}

/// All files that are reached from one by at least one import.
fn reach<'a>(edges: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let next = |file: &str| edges.get(file).into_iter().flatten().copied();
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = next(from).collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(next(file));
        }
    }
    reached
}

/// The files, as a row of `KNOWN` has them, and every import with its line.
fn show(circle: &Circle) -> String {
    let files: Vec<String> = circle.files.iter().map(|file| format!("\"{file}\"")).collect();
    let mut text = format!("circle of {}: &[{}],\n", files.len(), files.join(", "));
    let mut pairs: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for import in &circle.imports {
        let uses = pairs.entry((&import.from, &import.to)).or_default();
        uses.push(format!("{} {}", import.line, import.path));
    }
    for ((from, to), uses) in pairs {
        text.push_str(&format!("  {from} -> {to}: {}\n", uses.join("; ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate that has a `lib.rs` with these rooms, and these files.
    fn found(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files = files
            .iter()
            .map(|(path, text)| (format!("src/{path}"), (*text).to_owned()));
        let circles = circles(&imports(&files.collect()));
        let names = |circle: Circle| circle.files.into_iter().map(|file| file["src/".len()..].to_owned());
        circles.into_iter().map(|circle| names(circle).collect()).collect()
    }

    const LIB: (&str, &str) = ("lib.rs", "mod a; mod b; mod c; mod room; pub use room::Door;");

    #[test]
    fn two_files_that_import_each_other_are_seen_in_every_form() {
        for import in [
            "use crate::a::A;",
            "use super::a::A;",
            "use super::a::{self, A};",
            "use crate::{a::A as Other};",
            "use crate::{\n    c,\n    a::{A, C},\n};",
            "use crate::a::*; fn f(_: A) {}",
            "use crate::a; fn f(_: a::A) {}",
            "use crate::a as other; fn f(_: &[other::A; 2]) {}",
            "fn f() { crate::a::f(); }",
            "fn f() { super :: a\n:: A::new(); }",
            "fn f() { use crate::a::A; }",
            "mod inner { use super::super::a::A; }",
            "use crate as whole; fn f(_: whole::a::A) {}",
        ] {
            let b = format!("pub struct B; {import}");
            let files = [LIB, ("a.rs", "use crate::b::B; pub struct A;"), ("b.rs", &b)];
            assert_eq!(found(&files), [["a.rs", "b.rs"]], "{import}");
        }
    }

    #[test]
    fn three_files_in_a_circle_are_seen() {
        let files = [
            LIB,
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "use crate::c::C; pub struct B;"),
            ("c.rs", "use crate::a::A; pub struct C;"),
        ];
        assert_eq!(found(&files), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn two_circles_are_distinguished() {
        let files = [
            LIB,
            ("a.rs", "use crate::b::B; use crate::c::C; pub struct A;"),
            ("b.rs", "use crate::a::A; pub struct B;"),
            ("c.rs", "use crate::room::Door; pub struct C;"),
            ("room/mod.rs", "use crate::c::C; pub struct Door;"),
        ];
        assert_eq!(found(&files), [["a.rs", "b.rs"], ["c.rs", "room/mod.rs"]]);
    }

    #[test]
    fn a_circle_through_a_re_export_is_seen() {
        for (module, import) in [
            ("pub use door::Door;", "use crate::room::Door;"),
            ("pub use door::Door as Gate;", "use crate::room::Gate;"),
            ("pub use door::*;", "use crate::room::Door;"),
            ("pub use self::door as gate;", "use crate::room::gate::Door;"),
            ("pub use door::Door;", "fn f(_: crate::Door) {}"),
            ("pub use door::Door;", "use crate::room; fn f(_: room::Door) {}"),
        ] {
            let module = format!("mod door; {module}");
            let a = format!("pub struct A; {import}");
            let files = [
                LIB,
                ("room/mod.rs", &module),
                ("room/door.rs", "use crate::a::A; pub struct Door;"),
                ("a.rs", &a),
            ];
            assert_eq!(found(&files), [["a.rs", "room/door.rs"]], "{module} {import}");
        }
    }

    #[test]
    fn a_circle_within_a_room_is_seen() {
        let files = [
            LIB,
            ("room/mod.rs", "mod door; mod wall; pub use {door::Door, wall::Wall};"),
            ("room/door.rs", "use super::wall::Wall; pub struct Door;"),
            ("room/wall.rs", "use super::Door; pub struct Wall;"),
        ];
        assert_eq!(found(&files), [["room/door.rs", "room/wall.rs"]]);
        let files = [
            LIB,
            ("room.rs", "mod door; mod wall;"),
            ("room/door.rs", "use super::wall::Wall; pub struct Door;"),
            ("room/wall.rs", "fn f() { super::door::f() } pub struct Wall;"),
        ];
        assert_eq!(found(&files), [["room/door.rs", "room/wall.rs"]]);
    }

    #[test]
    fn an_item_that_a_macro_defines_counts_to_its_module() {
        let files = [
            LIB,
            ("a.rs", "use crate::b::B; made! { A }"),
            ("b.rs", "use crate::a::A; made!(B);"),
        ];
        assert_eq!(found(&files), [["a.rs", "b.rs"]]);
    }

    #[test]
    fn a_module_and_what_is_inside_it_may_import_each_other() {
        let files = [
            LIB,
            (
                "room/mod.rs",
                "mod door; use door::Door; fn f() { door::lock::g() } pub struct Room;",
            ),
            (
                "room/door/mod.rs",
                "pub mod lock; use super::Room; use lock::Lock; pub struct Door;",
            ),
            ("room/door/lock.rs", "use super::{Door, super::Room}; pub struct Lock;"),
        ];
        assert_eq!(found(&files), [[""; 0]; 0]);
    }

    #[test]
    fn tests_modules_and_words_do_not_count() {
        for b in [
            "#[cfg(test)]\nuse crate::a::A;",
            "#[cfg(test)]\nmod tests { use crate::a::A; }",
            "#[cfg(test)]\nmod proofs;",
            "// crate::a::A\nconst TEXT: &str = \"crate::a::A\";",
            "use crate::a;",
            "use other::a::A; fn f() { x.a::<B>(); other::crate_::a(); }",
            "mod a { pub struct A; } use a::A;",
        ] {
            let b = format!("pub struct B;\n{b}");
            let files = [
                LIB,
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", &b),
                ("b/proofs.rs", "use crate::a::A;"),
            ];
            assert_eq!(found(&files), [[""; 0]; 0], "{b}");
        }
    }
}
