//! `mainspring bench plot`: the results of several runs, side by side in one SVG.
//!
//! It reads files only, no database. The same files in the same order give the same bytes.

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
    if series.len() > chart::MAX_SERIES {
        return Err(Failure::usage(format!(
            "{} runs differ in name or settings; a plot shows at most {}",
            series.len(),
            chart::MAX_SERIES
        )));
    }
    let picture = chart::draw(&series);
    let Some(path) = &settings.output else {
        let mut out = io::stdout().lock();
        return match out.write_all(picture.as_bytes()).and_then(|()| out.flush()) {
            // The reader has closed the pipe.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(Failure::failed(format!("standard output: {error}")))
            }
            _ => Ok(()),
        };
    };
    let failed = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
    let same = |file: &std::path::PathBuf| file.canonicalize().ok().zip(path.canonicalize().ok());
    if settings
        .files
        .iter()
        .filter_map(same)
        .any(|(input, output)| input == output)
    {
        return Err(Failure::usage(format!(
            "{}: the plot would overwrite a run",
            path.display()
        )));
    }
    std::fs::write(path, picture).map_err(failed)
}
