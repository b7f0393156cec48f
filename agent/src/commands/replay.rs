//! `crane-agent replay`: capture files through the same pipeline.

use std::fs::File;
use std::io::Write;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::configure::{self, configure};
use crate::capture::file::folder;
use crate::capture::file::input::STDIN;
use crate::capture::merge::Merge;
use crate::capture::pace::Speed;
use crate::capture::replay::{Ended, Replay, ReplayFile};
use crate::cli::{self, ReplayWindow, ReportFormat};
use crate::http::{self, ApiState, History, Shown};
use crate::names::Names;
use crate::report::page::LISTED;
use crate::report::{CaptureReport, Report, Style};
use crate::sketch::answer::About;
use crate::sketch::key::Key;
use crate::sketch::past::Wanted;
use crate::sketch::pipeline::{Mode, Pipeline};
use crate::stop;
use crate::units::Units;

/// Exit code of a command line that is wrong.
const BAD_USAGE: u8 = 2;

/// Replays the files one after the other and reports on each, or as one capture.
pub fn run(args: &cli::Replay, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let loaded = configure(args.config.as_ref(), &args.sketch)?;
    // What is served while it comes slowly is shown as soon as a live capture would be.
    let linger = args.serve && args.speed != Speed::Max;
    configure::name_useless(&loaded, args.serve, linger);
    let mut config = loaded.config;
    if args.filter.is_some() {
        config.capture.filter.clone_from(&args.filter);
    }
    if !args.serve {
        config.export.web_config = None;
    }
    configure::check(&config, &loaded.places)?;
    if !args.listen.is_empty() {
        config.export.listen.clone_from(&args.listen);
    }
    let top = args.top.map_or(config.export.top, NonZero::get);
    let ask = match questions(args, config.networks.as_deref()) {
        Ok(ask) => ask,
        Err(error) => {
            crate::log::fatal(&error);
            return Ok(ExitCode::from(BAD_USAGE));
        }
    };
    let found = folder::find(&args.files)?;
    if args.repeat {
        refuse_pipes(&found.captures)?;
    }
    anyhow::ensure!(
        !args.verify || config.capture.sample == 1,
        "--verify needs every packet: set capture.sample = 1"
    );
    let stop = stop::on_signal()?;
    let listeners = args.serve.then(|| http::bind(&config.export)).transpose()?;

    let mode = Mode::Replay {
        window: match args.window {
            ReplayWindow::Whole => None,
            ReplayWindow::Length(length) => Some(length),
        },
        wanted: Wanted {
            windows: (!args.repeat).then_some(top),
            by: args.sort,
            exactly: args.verify,
            ask,
            both: args.both,
            inside: args.report.is_some(),
        },
        serve: args.serve,
        linger,
        sketch: !args.no_sketch,
    };
    let mut page = args.report.as_deref().map(PageFile::open).transpose()?;
    let start = Instant::now();
    let listed = match page {
        Some(_) => top.max(LISTED),
        None => top,
    };
    let pipeline = Pipeline::start(&config, mode, listed, &Key::of_seed(args.sketch.seed()))?;
    if let Some(listeners) = listeners {
        let state = ApiState {
            exporter: pipeline.export()?,
            snapshot: Arc::new(Shown::new(pipeline.snapshot(), config.export.anonymise)?),
            worker: pipeline.handle(),
            waiting: Arc::default(),
            history: History::default(),
        };
        let served = http::serve(listeners, &config.export, state)?;
        for address in served.addresses() {
            tracing::info!("the page is at {address}/, metrics are at {address}/metrics");
        }
    }

    let mut replay = Replay::new(pipeline, config.capture, args.speed, stop);
    let (mut files, mut captures) = (Vec::new(), Vec::new());
    let mut end = |replay: &mut Replay<'_>, file: &mut ReplayFile| {
        end(
            replay,
            file,
            top,
            page.as_mut().map(|page| &mut page.captures),
        )
    };
    // What could not be read, and why.
    let mut failed: Vec<(PathBuf, String)> = Vec::new();
    if args.merge {
        let mut merge = Merge::new(found.captures);
        let mut merged = ReplayFile::new(merge.title().into());
        replay.play_merged(&mut merged, &mut merge);
        for capture in end(&mut replay, &mut merged)? {
            let paths = merge.paths().map(|path| path.display().to_string());
            captures.push(capture.of_files(paths.collect()));
        }
        let errors = merge.errors();
        failed.extend(errors.map(|(path, error)| (path.into(), error.into())));
    } else {
        files.extend(found.captures.into_iter().map(ReplayFile::new));
    }
    loop {
        for file in &mut files {
            replay.play(file);
            if !args.repeat {
                captures.extend(end(&mut replay, file)?);
            }
        }
        let useless = files.iter().all(|file| file.error().is_some());
        if !args.repeat || useless || stop.load(Relaxed) || replay.pipeline().has_ended() {
            break;
        }
    }
    if args.repeat {
        for file in &mut files {
            captures.extend(end(&mut replay, file)?);
        }
    }
    let errors = files.iter().filter_map(|file| {
        let error = file.error()?.to_owned();
        Some((file.path().to_owned(), error))
    });
    failed.extend(errors);
    let elapsed = start.elapsed();
    if let Some(page) = page {
        page.write(&found.skipped, elapsed)?;
    }
    let report = Report::new(captures, &found.skipped, elapsed);
    match args.format {
        ReportFormat::Json => report.write_json(out)?,
        ReportFormat::Table => {
            let style = Style {
                units: Units::of(args.exact),
                by: args.sort,
                // Whoever wants to see more of the log wants to see these.
                sketch: tracing::enabled!(tracing::Level::DEBUG),
            };
            report.write_table(out, &style)?;
        }
    }
    out.flush()?;
    for (path, why) in &found.skipped {
        tracing::warn!(path = &*path.to_string_lossy(), "skipped: {why}");
    }
    for (path, error) in &failed {
        crate::log::fatal(&anyhow::anyhow!("{}: {error}", path.display()));
    }
    if args.serve && !args.repeat {
        tracing::info!("all packets replayed; serving until stopped");
        while !stop::wait(stop, Duration::from_secs(3600)) {}
    }
    replay.finish()?;
    Ok(match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What is asked; only now it is known which networks have names.
fn questions(args: &cli::Replay, names: Option<&Names>) -> anyhow::Result<Vec<About>> {
    let mut questions = args.ask.clone();
    for question in &mut questions {
        if let About::Flow { ends, both } = question {
            let checked = ends.check(names).map_err(anyhow::Error::msg);
            checked.with_context(|| format!("--ask {},{}", ends.src, ends.dst))?;
            *both = args.both;
        }
    }
    Ok(questions)
}

/// What is read once cannot be looped.
fn refuse_pipes(paths: &[PathBuf]) -> anyhow::Result<()> {
    for path in paths {
        let is_pipe = std::fs::metadata(path).is_ok_and(|meta| !meta.is_file());
        anyhow::ensure!(
            !is_pipe && path != Path::new(STDIN),
            "{}: --loop needs files, which can be read again",
            path.display()
        );
    }
    Ok(())
}

/// The page that is written at the end, and what it will show.
struct PageFile {
    path: PathBuf,
    file: File,
    captures: Vec<CaptureReport>,
}

impl PageFile {
    /// Opened at once, so that a wrong path costs no replay; what is there stays until
    /// there is something better.
    fn open(path: &Path) -> anyhow::Result<Self> {
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(path);
        Ok(Self {
            file: file.with_context(|| format!("cannot write {}", path.display()))?,
            path: path.into(),
            captures: Vec::new(),
        })
    }

    fn write(mut self, skipped: &[(PathBuf, String)], elapsed: Duration) -> anyhow::Result<()> {
        let report = Report::new(self.captures, skipped, elapsed);
        let page = http::page::report(&report.page_data()?);
        self.file
            .set_len(0)
            .and_then(|()| self.file.write_all(page.as_bytes()))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// Waits for the end of a file and reports on it, at more length in `page`.
fn end(
    replay: &mut Replay<'_>,
    file: &mut ReplayFile,
    top: usize,
    page: Option<&mut Vec<CaptureReport>>,
) -> anyhow::Result<Vec<CaptureReport>> {
    let mut ended = replay.end(file)?;
    let (path, error) = (file.path().display().to_string(), file.error());
    if let ([], Some(error)) = (&ended[..], error) {
        let unreadable = || CaptureReport::unreadable(path.clone(), error.into());
        if let Some(page) = page {
            page.push(unreadable());
        }
        return Ok(vec![unreadable()]);
    }
    let report = |ended: &Ended| {
        CaptureReport::new(
            path.clone(),
            ended.interface.clone(),
            ended.ends,
            &ended.summary,
            error.map(str::to_owned),
        )
    };
    if let Some(page) = page {
        page.extend(ended.iter().map(|one| report(one).for_page(&one.summary)));
        ended.iter_mut().for_each(|one| one.summary.shorten(top));
    }
    Ok(ended.iter().map(report).collect())
}
