//! Compiles QuickJS, and names the bindings of the target.

use std::path::Path;
use std::{env, fs};

const SOURCES: [&str; 4] = ["libregexp.c", "libunicode.c", "quickjs.c", "dtoa.c"];

fn main() {
    println!("cargo:rerun-if-changed=quickjs");
    println!("cargo:rerun-if-changed=build.rs");

    let target = env::var("TARGET").expect("cargo sets TARGET");
    if !Path::new("src/bindings").join(format!("{target}.rs")).exists() {
        panic!("vendor/rquickjs-sys/src/bindings has no bindings of QuickJS for {target}: copy those of the released rquickjs-sys there");
    }
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(
        Path::new(&out).join("bindings.rs"),
        format!("macro_rules! bindings_env {{ (\"TARGET\") => {{ \"{target}\" }}; }}"),
    )
    .expect("OUT_DIR is writable");

    let mut build = cc::Build::new();
    build
        .warnings(false)
        .extra_warnings(false)
        .flag_if_supported("-Wno-implicit-const-int-float-conversion")
        .define("_GNU_SOURCE", None);
    if env::var_os("CARGO_FEATURE_DISABLE_ASSERTIONS").is_some() {
        build.define("NDEBUG", None);
    }
    if env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("windows") {
        build.define("WIN32_LEAN_AND_MEAN", None);
        if env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("msvc") {
            build.flag("/std:c11").flag("/experimental:c11atomics");
        } else {
            build.flag("-std=c11");
        }
    }
    for source in SOURCES {
        build.file(Path::new("quickjs").join(source));
    }
    build.compile("libquickjs.a");
}
