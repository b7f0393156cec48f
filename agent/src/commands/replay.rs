//! `crane-agent replay`: sends capture files through the same pipeline as live packets.

use std::fs::File;
use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::configure::{self, configure};
use crate::cli::{self, ReplayWindow, ReportFormat};
use crate::config::Config;
use crate::export::metrics::Exporter;
use crate::file::folder;
use crate::file::input::STDIN;
use crate::http::{self, ApiState, History, Rates};
use crate::process::stop;
use crate::replay::merge::Merge;
use crate::replay::pace::Speed;
use crate::replay::{Replay, ReplayFile};
use crate::report::lines::CsvReport;
use crate::report::page::LISTED;
use crate::report::windows::WindowReports;
use crate::report::{CaptureReport, Report, ReportOptions, Style};
use crate::ring::pipeline::{Mode, Pipeline};
use crate::sketches::key::Key;
use crate::text::units::Units;
use crate::traffic::endpoint::KnownNetworks;
use crate::traffic::question::Question;
use crate::window::view::{CurrentView, View};
use crate::window::windows::OnTurn;

/// The number of cores that this process may use.
fn cores() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Exit code of a wrong command line.
const BAD_USAGE: u8 = 2;

/// Replays the files one after the other, or merged into one capture, and reports on them.
pub fn run(args: &cli::Replay, out: &mut impl Write) -> anyhow::Result<ExitCode> {
    let loaded = configure(args.config.as_ref(), &args.sketch)?;
    // A paced replay with HTTP answers stores packets as promptly as a live capture.
    let linger = args.serve && args.speed != Speed::Max;
    configure::warn_of_unused_keys(&loaded, args.serve, linger);
    let mut config = loaded.config;
    if args.filter.is_some() {
        config.capture.filter.clone_from(&args.filter);
    }
    if !args.serve {
        config.export.web_config = None;
    }
    configure::check(&config, &loaded.locations)?;
    if !args.listen.is_empty() {
        config.export.listen.clone_from(&args.listen);
    }
    let top = args.top.map_or(config.export.top, NonZero::get);
    let ask = match questions(args, &config) {
        Ok(ask) => ask,
        Err(error) => {
            crate::process::log::fatal(&error);
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

    let mut page = args.report.as_deref().map(PageFile::open).transpose()?;
    let options = ReportOptions {
        top: match page {
            Some(_) => top.max(LISTED),
            None => top,
        },
        by: args.format.order(args.sort),
        ask,
        both: args.both,
    };
    let (windows, report_window) = WindowReports::new(options.clone());
    let csv = (args.format == ReportFormat::Csv).then(|| {
        CsvReport::begin(
            io::stdout(),
            ReportOptions {
                top,
                ..options.clone()
            },
            stop,
        )
    });
    let mut on_windows: Vec<OnTurn> = Vec::new();
    if !args.repeat && (csv.is_none() || page.is_some()) {
        on_windows.push(report_window);
    }
    on_windows.extend(csv.as_ref().map(CsvReport::on_turn));
    let on_turn: OnTurn = Arc::new(move |interface, window, tally| {
        on_windows
            .iter()
            .for_each(|on_window| on_window(interface, window, tally));
    });
    let jobs = args.jobs.map_or_else(cores, NonZero::get);
    let mode = Mode::Replay {
        window: match args.window {
            ReplayWindow::Whole => None,
            ReplayWindow::Length(length) => Some(length),
        },
        exact: args.verify,
        on_turn: Some(on_turn),
        serve: args.serve,
        linger,
        sketch: !args.no_sketch,
        jobs,
    };
    let start = Instant::now();
    let pipeline = Pipeline::start(&config, mode, &Key::of_seed(args.sketch.seed()))?;
    if let Some(listeners) = listeners {
        let state = ApiState {
            exporter: Exporter::install(pipeline.device())?,
            reader: pipeline.reader(),
            shown: Arc::new(CurrentView::new(View {
                top,
                ..View::new(&config.export)?
            })),
            waiting: Arc::default(),
            history: History::default(),
            rates: Rates::default(),
        };
        let served = http::serve(listeners, &config.export, state)?;
        for address in served.addresses() {
            tracing::info!("the page is at {address}/, metrics are at {address}/metrics");
        }
    }

    let mut replay = Replay::new(pipeline, config.capture, args.speed, jobs, stop);
    let (mut files, mut captures) = (Vec::new(), Vec::new());
    let mut reporter = Reporter {
        options,
        top,
        windows,
        page: page.as_mut().map(|page| &mut page.captures),
        csv: csv
            .as_deref()
            .filter(|_| args.window == ReplayWindow::Whole),
    };
    // Files that could not be read, with the reason.
    let mut failed: Vec<(PathBuf, String)> = Vec::new();
    if args.merge {
        let mut merge = Merge::new(found.captures);
        let mut merged = ReplayFile::new(merge.title().into());
        replay.play_merged(&mut merged, &mut merge);
        for capture in reporter.end(&mut replay, &mut merged)? {
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
                captures.extend(reporter.end(&mut replay, file)?);
            }
        }
        let useless = files.iter().all(|file| file.error().is_some());
        if !args.repeat || useless || stop.load(Relaxed) || replay.pipeline().has_ended() {
            break;
        }
    }
    if args.repeat {
        for file in &mut files {
            captures.extend(reporter.end(&mut replay, file)?);
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
        // Each capture or window has been written when it ended.
        ReportFormat::Csv => {}
        ReportFormat::Table => {
            let style = Style {
                units: Units::of(args.exact),
                by: args.format.order(args.sort),
                // Figures of the sketch are details, like debug messages.
                sketch: tracing::enabled!(tracing::Level::DEBUG),
            };
            report.write_table(out, &style)?;
        }
    }
    match &csv {
        Some(csv) => csv.finish()?,
        None => out.flush()?,
    }
    for (path, why) in &found.skipped {
        tracing::warn!(path = &*path.to_string_lossy(), "skipped: {why}");
    }
    for (path, error) in &failed {
        crate::process::log::fatal(&anyhow::anyhow!("{}: {error}", path.display()));
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

/// Checks that networks and AS in the questions are configured.
fn questions(args: &cli::Replay, config: &Config) -> anyhow::Result<Vec<Question>> {
    let known = KnownNetworks {
        names: config.networks.as_deref(),
        asns: config.databases.asns.as_ref(),
    };
    let mut questions = args.ask.clone();
    for question in &mut questions {
        if let Question::Flow { ends, both, .. } = question {
            let checked = ends.check(&known).map_err(anyhow::Error::msg);
            checked.with_context(|| format!("--ask {},{}", ends.src, ends.dst))?;
            *both = args.both;
        }
    }
    Ok(questions)
}

/// A pipe can be read only once, so it cannot be looped.
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

/// The page that is written at the end.
struct PageFile {
    path: PathBuf,
    file: File,
    captures: Vec<CaptureReport>,
}

impl PageFile {
    /// Opens the file at the start, so that a wrong path is reported early. Its content is replaced
    /// only when the page is complete.
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

/// Reports on files.
struct Reporter<'a> {
    options: ReportOptions,
    /// Rows of lists in the report; the page has more.
    top: usize,
    windows: WindowReports,
    page: Option<&'a mut Vec<CaptureReport>>,
    /// The CSV report, if whole captures are written to it.
    csv: Option<&'a CsvReport>,
}

impl Reporter<'_> {
    /// Waits for the end of a file and adds its report.
    fn end(
        &mut self,
        replay: &mut Replay<'_>,
        file: &mut ReplayFile,
    ) -> anyhow::Result<Vec<CaptureReport>> {
        let ended = replay.end(file)?;
        let (path, error) = (file.path().display().to_string(), file.error());
        if let ([], Some(error)) = (&ended[..], error) {
            let unreadable = || CaptureReport::unreadable(path.clone(), error.into());
            if let Some(page) = &mut self.page {
                page.push(unreadable());
            }
            return Ok(vec![unreadable()]);
        }
        let mut reports = Vec::new();
        for one in &ended {
            self.options.wait_for_names(&one.ended.whole);
            let (whole, windows) = (&one.ended, self.windows.take(&one.ended.name));
            if let Some(csv) = self.csv {
                csv.add(&one.ended.name, &one.ended.whole, one.times);
            }
            let (path, interface) = (path.clone(), one.interface.clone());
            let report =
                CaptureReport::new(path, interface, one.times, whole, windows, &self.options)?;
            let report = report.with_error(error.map(str::to_owned));
            reports.push(match &mut self.page {
                Some(page) => {
                    let report = report.for_page(&whole.whole)?;
                    page.push(report.clone());
                    report.shortened(self.top)
                }
                None => report,
            });
        }
        Ok(reports)
    }
}
