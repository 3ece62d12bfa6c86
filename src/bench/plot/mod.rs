//! `mainspring bench plot`: the outcomes of several runs, side by side in one SVG.
//!
//! It draws what stands in files, and asks no database. The same files in the same order give the same bytes.

mod chart;
mod panel;
mod reading;
mod scale;
mod series;
mod svg;
#[cfg(test)]
mod tests;

use std::io::{self, ErrorKind, Write};

use crate::bench::settings::BenchPlot;
use crate::harness::failure::Failure;

pub(crate) fn run(settings: &BenchPlot) -> Result<(), Failure> {
    let runs = reading::read(&settings.files)?;
    let series = series::group(runs);
    if series.len() > chart::MOST_SERIES {
        return Err(Failure::usage(format!(
            "these are {} runs that differ in name or settings; a picture holds {}",
            series.len(),
            chart::MOST_SERIES
        )));
    }
    let picture = chart::draw(&series);
    let Some(path) = &settings.output else {
        let mut out = io::stdout().lock();
        return match out.write_all(picture.as_bytes()).and_then(|()| out.flush()) {
            // Nobody reads on: there is nothing left to do.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("standard output: {error}")))
            }
            _ => Ok(()),
        };
    };
    let told = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let same = |file: &std::path::PathBuf| file.canonicalize().ok().zip(path.canonicalize().ok());
    if settings
        .files
        .iter()
        .filter_map(same)
        .any(|(input, output)| input == output)
    {
        return Err(Failure::usage(format!(
            "{}: the picture would overwrite a run",
            path.display()
        )));
    }
    std::fs::write(path, picture).map_err(told)
}
