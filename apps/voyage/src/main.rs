//! The command line.

use std::io::{BufWriter, ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use arioso_voyage::build::{self, Recipe, simplify::Tolerance};
use arioso_voyage::error::{Error, Result};
use arioso_voyage::feed::{self, Feed};
use arioso_voyage::input::Input;
use arioso_voyage::model::Prediction;
use arioso_voyage::model::follow::{Reports, follow};
use arioso_voyage::model::judge::{Ports, WEIGHTS, Weights};
use arioso_voyage::model::run::Threads;
use arioso_voyage::model::score::Calls;
use arioso_voyage::remote::{Patience, Remote};
use arioso_voyage::sea::network::Network;
use arioso_voyage::sea::router::{CACHE_BYTES, Options, Router, SNAP_KM_MAX};
use arioso_voyage::sea::sphere::Position;
use arioso_voyage::sea::{self, file};
use arioso_voyage::{answer, bench, check, nmea, ports, serve};
use clap::{Args, Parser, Subcommand};

/// Vessel positions and ways by sea.
#[derive(Debug, Parser)]
#[command(name = "voyage", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Read recorded positions.
    #[command(subcommand)]
    Import(Import),
    /// The shortest way by sea from one position to another.
    Route(RouteArgs),
    /// Answer over HTTP: JSON, a map, a description of the interface.
    Serve(ServeArgs),
    /// Predict where vessels go: reads ais/** on the bus, publishes to predictions/<mmsi>.
    Model(ModelArgs),
    /// Make a sea network out of land polygons (some minutes).
    BuildNetwork(BuildArgs),
    /// Make the list of ports out of the World Port Index.
    BuildPorts {
        /// The index as CSV (`.zst` is unpacked).
        #[arg(long, value_name = "FILE")]
        index: PathBuf,
        /// Where to write the list.
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
    },
    /// The questions of a replay, asked in process and over HTTP (Linux).
    Bench(BenchArgs),
    /// Compare routes with land, with other tools and with published distances.
    Check(CheckArgs),
}

#[derive(Debug, Subcommand)]
enum Import {
    /// AIS in NMEA 0183 sentences, one a line.
    Nmea {
        /// Publish nothing; print one line of JSON for each message and each rejected line.
        #[arg(long)]
        dry_run: bool,
        /// Publish as this publisher: what an earlier import under the name stored is not stored again.
        #[arg(long, value_name = "NAME")]
        publisher: Option<String>,
        #[command(flatten)]
        bus: BusArgs,
        /// Files (`.zst` is unpacked); `-` is standard input.
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Tracks as CSV (`mmsi,unix_s,lat,lon,speed_kn,course_deg`), as position reports by time.
    Tracks {
        /// The file (`.zst` is unpacked).
        file: PathBuf,
        /// Publish as this publisher: what an earlier import under the name stored is not stored again.
        #[arg(long, value_name = "NAME")]
        publisher: Option<String>,
        #[command(flatten)]
        bus: BusArgs,
    },
}

#[derive(Debug, Args)]
struct ModelArgs {
    #[command(flatten)]
    bus: BusArgs,
    /// End behind the last report that is there; otherwise follow live.
    #[arg(long)]
    until_end: bool,
    /// Threads that ask the path finder (as many keep the state of vessels).
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Ask the web service there instead of the path finder in this process.
    #[arg(long, value_name = "ADDR")]
    remote: Option<SocketAddr>,
    /// Tell at the end how often the ports at which the vessels called were predicted.
    #[arg(long, requires = "until_end")]
    score: bool,
    /// What a detour of the whole way costs a port.
    #[arg(long, default_value_t = WEIGHTS.detour, value_name = "SCORE")]
    detour: f64,
    /// The distance that costs a port one.
    #[arg(long, default_value_t = WEIGHTS.far_km, value_name = "KM")]
    far_km: f64,
    #[command(flatten)]
    network: NetworkArgs,
}

#[derive(Debug, Args)]
struct BusArgs {
    /// The server of the bus.
    #[arg(long, env = "ARIOSO_SERVER", default_value = "127.0.0.1:7420", value_name = "ADDR")]
    server: String,
    /// The bus in this directory, opened in this process, instead of a server.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct NetworkArgs {
    /// A network that `build-network` wrote, or GeoJSON lines, instead of the one built in.
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct RouteArgs {
    /// Where from: LON,LAT in degrees.
    #[arg(allow_hyphen_values = true, value_parser = position, required_unless_present = "jsonl")]
    from: Option<Position>,
    /// Where to: LON,LAT in degrees.
    #[arg(allow_hyphen_values = true, value_parser = position, required_unless_present = "jsonl")]
    to: Option<Position>,
    /// Answer in JSON, with the points of the way.
    #[arg(long)]
    json: bool,
    /// Read lines {"from": {"lon", "lat"}, "to": {"lon", "lat"}} from FILE (`-` is standard input) and
    /// add km, nm, passages, points, or error, to each.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "to", "json"])]
    jsonl: Option<PathBuf>,
    /// A canal or strait not to use; may be repeated.
    #[arg(long, value_name = "NAME")]
    avoid: Vec<String>,
    /// A canal or strait to use that is closed by default; may be repeated.
    #[arg(long, value_name = "NAME")]
    allow: Vec<String>,
    /// Tell how long it takes at this speed, in knots.
    #[arg(long, value_name = "KNOTS")]
    speed: Option<f64>,
    /// Farthest that an end may be from water, in kilometres.
    #[arg(long, value_name = "KM", default_value_t = SNAP_KM_MAX)]
    snap_km_max: f64,
    #[command(flatten)]
    network: NetworkArgs,
}

#[derive(Debug, Args)]
struct ServeArgs {
    /// Where to listen; port 0 lets the system choose. The first line on standard output tells.
    #[arg(long, default_value = "127.0.0.1:7430", value_name = "ADDR")]
    listen: SocketAddr,
    /// Listen beyond this machine although there is neither encryption nor a password.
    #[arg(long)]
    insecure: bool,
    /// Requests answered at once; more get 503 with Retry-After.
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    in_flight: u16,
    /// Ceiling of the cache of answers, in MiB; 0 keeps nothing.
    #[arg(long, default_value_t = CACHE_BYTES >> 20, value_name = "MIB", value_parser = clap::value_parser!(u64).range(0..=65_536))]
    cache_mib: u64,
    #[command(flatten)]
    network: NetworkArgs,
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Land polygons in GeoJSON (`.zst` is unpacked); may be repeated.
    #[arg(long, required = true, value_name = "FILE")]
    land: Vec<PathBuf>,
    /// A list of canals, straits, shoals and rivers (TOML) instead of the one built in.
    #[arg(long, value_name = "FILE")]
    passages: Option<PathBuf>,
    /// Farthest that simplified land may reach beyond true land, in kilometres.
    #[arg(long, default_value_t = 3.0, value_name = "KM")]
    tolerance: f64,
    /// The same beyond 72° north and 60° south.
    #[arg(long, default_value_t = 10.0, value_name = "KM")]
    polar_tolerance: f64,
    /// How much longer than the shortest a way along the network may be, as a share; routes are pulled
    /// straight afterwards.
    #[arg(long, default_value_t = 0.02)]
    slack: f32,
    /// Where to write the network.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

#[derive(Debug, Args)]
struct BenchArgs {
    /// Tracks as for `import tracks`.
    #[arg(long, default_value = "../shared/data/sea/ais_tracks.csv.zst", value_name = "FILE")]
    tracks: PathBuf,
    /// Most questions of the replay that are asked.
    #[arg(long, default_value_t = 20_000, value_name = "N")]
    questions: usize,
    /// Threads that ask; may be repeated.
    #[arg(long, default_values_t = [1, 2], value_name = "N")]
    threads: Vec<usize>,
    /// Clients in the storm.
    #[arg(long, default_value_t = 256, value_name = "N")]
    storm: usize,
    /// Requests that the service answers at once in the storm.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    storm_in_flight: u16,
    /// Where every answer is known, in process is asked so many times as often, for its time to be seen.
    #[arg(long, default_value_t = 100, value_name = "N")]
    repeat: usize,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Directory with `land_10m.geojson.zst`, `distances_peer.jsonl.zst` and the other files.
    #[arg(long, default_value = "../shared/data/sea", value_name = "DIR")]
    data: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Free water in front of a simplified coast, in kilometres.
const CLEAR_KM: f64 = 0.3;

/// Most bytes of a list of passages.
const PASSAGES_BYTES_MAX: u64 = 1 << 24;

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(status) => status,
        Err(Error::Write(e)) if e.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("voyage: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<ExitCode> {
    match command {
        Command::Import(Import::Nmea { dry_run: true, files, .. }) => print_nmea(&files)?,
        Command::Import(Import::Nmea { files, bus, publisher, .. }) => import_nmea(&files, &bus, publisher.as_deref())?,
        Command::Route(args) => route(&args)?,
        Command::Import(Import::Tracks { file, publisher, bus }) => import_tracks(&file, &bus, publisher.as_deref())?,
        Command::Model(args) => model(&args)?,
        Command::Serve(args) => serve_http(&args)?,
        Command::BuildNetwork(args) => build_network(&args)?,
        Command::BuildPorts { index, out } => build_ports(&index, &out)?,
        Command::Bench(args) => run_bench(&args)?,
        Command::Check(args) => return run_check(&args),
    }
    Ok(ExitCode::SUCCESS)
}

fn position(text: &str) -> std::result::Result<Position, String> {
    let (lon, lat) = text.split_once(',').ok_or("must be LON,LAT, such as 4.05,51.98")?;
    let degrees = |part: &str| part.trim().parse::<f64>().map_err(|e| format!("{part:?}: {e}"));
    let at = Position::new(degrees(lon)?, degrees(lat)?);
    if at.is_valid() { Ok(at) } else { Err("longitude is -180 to 180, latitude -90 to 90".to_owned()) }
}

fn network(args: &NetworkArgs) -> Result<Network> {
    args.network.as_deref().map_or_else(sea::oceans, sea::open)
}

fn import_nmea(files: &[PathBuf], bus: &BusArgs, publisher: Option<&str>) -> Result<()> {
    let bus = feed::open(bus.data.as_deref(), &bus.server)?;
    let mut feed = Feed::new(&bus, publisher)?;
    for path in files {
        let counts = nmea::import(Input::open(path)?, &mut feed)?;
        eprintln!("{}: {counts}", path.display());
    }
    let (published, last) = feed.finish()?;
    bus.close()?;
    eprintln!("{published} published, the last one as {last}");
    Ok(())
}

fn print_nmea(files: &[PathBuf]) -> Result<()> {
    let mut sink = nmea::JsonLines(BufWriter::new(std::io::stdout().lock()));
    for path in files {
        let counts = nmea::import(Input::open(path)?, &mut sink)?;
        eprintln!("{}: {counts}", path.display());
    }
    sink.0.flush().map_err(Error::Write)
}

fn route(args: &RouteArgs) -> Result<()> {
    let router = Router::new(network(&args.network)?, CACHE_BYTES);
    let (avoid, allow) = (args.avoid.iter().map(String::as_str), args.allow.iter().map(String::as_str));
    let options = router.options_with(avoid, allow)?;
    let options = Options { snap_km_max: args.snap_km_max, ..options };
    if let Some(knots) = args.speed.filter(|knots| !answer::is_speed(*knots)) {
        return Err(Error::Speed { knots });
    }
    let mut out = BufWriter::new(std::io::stdout().lock());
    if let Some(path) = &args.jsonl {
        answer_lines(&router, &options, args.speed, path, &mut out)?;
    } else if let (Some(from), Some(to)) = (args.from, args.to) {
        let route = router.route(from, to, &options)?;
        let answer = answer::Answer::new(&router, &route, args.speed);
        if args.json {
            serde_json::to_writer(&mut out, &answer).map_err(|e| Error::Write(e.into()))?;
            writeln!(out).map_err(Error::Write)?;
        } else {
            write!(out, "{answer}").map_err(Error::Write)?;
        }
    }
    out.flush().map_err(Error::Write)
}

fn answer_lines(
    router: &Router,
    options: &Options,
    knots: Option<f64>,
    path: &Path,
    out: &mut impl Write,
) -> Result<()> {
    let mut input = Input::open(path)?;
    let mut line = Vec::new();
    while input.next_line(&mut line)?.is_some() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let answered = answer::line(router, options, knots, &line);
        serde_json::to_writer(&mut *out, &answered).map_err(|e| Error::Write(e.into()))?;
        out.write_all(b"\n").map_err(Error::Write)?;
    }
    Ok(())
}

fn build_network(args: &BuildArgs) -> Result<()> {
    let passages = match &args.passages {
        Some(path) => {
            let bytes = Input::open(path)?.read_all(PASSAGES_BYTES_MAX)?;
            String::from_utf8(bytes).map_err(|e| Error::Passages(format!("{}: {e}", path.display())))?
        }
        None => build::PASSAGES.to_owned(),
    };
    let recipe = Recipe {
        land: args.land.clone(),
        tolerance: Tolerance { km: args.tolerance, polar_km: args.polar_tolerance, clear_km: CLEAR_KM },
        passages,
        slack: args.slack,
    };
    let contents = build::build(&recipe, &|line| eprintln!("{line}"))?;
    let bytes = file::write(&contents, file::SMALL)?;
    file::read(&bytes)?; // what cannot be read back is not written
    std::fs::write(&args.out, &bytes).map_err(|source| Error::WriteFile { path: args.out.clone(), source })?;
    eprintln!("{}: {} bytes", args.out.display(), bytes.len());
    Ok(())
}

fn import_tracks(file: &Path, bus: &BusArgs, publisher: Option<&str>) -> Result<()> {
    let bus = feed::open(bus.data.as_deref(), &bus.server)?;
    let mut feed = Feed::new(&bus, publisher)?;
    for (topic, time, payload) in arioso_voyage::model::input::tracks(file)? {
        feed.publish(&topic, &payload, Some(time))?;
    }
    let (published, last) = feed.finish()?;
    bus.close()?;
    eprintln!("{published} published, the last one as {last}");
    Ok(())
}

fn model(args: &ModelArgs) -> Result<()> {
    let bus = feed::open(args.bus.data.as_deref(), &args.bus.server)?;
    let list = ports::ports()?;
    let ports = Ports::new(list.clone(), Weights { detour: args.detour, far_km: args.far_km });
    let threads = Threads { fleet: args.threads.into(), judge: args.threads.into() };
    let mut kept = Vec::new();
    let seen = |prediction: &Prediction| {
        if args.score {
            kept.push(prediction.clone());
        }
    };
    let told = match args.remote {
        Some(address) => {
            let finder = Remote::new(address, Patience::default());
            follow(&bus, args.until_end, &ports, &finder, threads, seen)?
        }
        None => {
            let finder = Router::new(network(&args.network)?, CACHE_BYTES);
            follow(&bus, args.until_end, &ports, &finder, threads, seen)?
        }
    };
    println!("{told} predictions");
    if args.score {
        let mut calls = Calls::default();
        for report in Reports::new(&bus, true)? {
            calls.hear(&report?, &list);
        }
        for (mmsi, time, port) in calls.all() {
            let before =
                |p: &&Prediction| p.mmsi == mmsi && calls.next(mmsi, p.time).is_some_and(|call| call.0 == time);
            let own: Vec<Prediction> = kept.iter().filter(before).cloned().collect();
            println!("{mmsi} called at {port} at {time:.0}: {:?}", calls.score(&own, &list));
        }
        println!("all: {:?}", calls.score(&kept, &list));
    }
    bus.close()?;
    Ok(())
}

fn serve_http(args: &ServeArgs) -> Result<()> {
    if !args.insecure && !args.listen.ip().is_loopback() {
        return Err(Error::Ask(format!("{} is not loopback; listening there needs --insecure", args.listen)));
    }
    let router = Router::new(network(&args.network)?, args.cache_mib << 20);
    let service = serve::service(router, args.in_flight.into())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Serve)?;
    runtime.block_on(async {
        let listener = serve::listen(args.listen)?;
        let address = listener.local_addr().map_err(Error::Serve)?;
        println!("listening on http://{address}");
        serve::serve(listener, service, serve::stop_signal()).await
    })
}

fn build_ports(index: &Path, out: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    let count = ports::build(index, &mut bytes)?;
    std::fs::write(out, &bytes).map_err(|source| Error::WriteFile { path: out.to_owned(), source })?;
    eprintln!("{}: {count} ports", out.display());
    Ok(())
}

fn run_bench(args: &BenchArgs) -> Result<()> {
    let plan = bench::Plan {
        questions: args.questions.max(1),
        threads: args.threads.iter().map(|n| (*n).max(1)).collect(),
        storm: args.storm.max(1),
        storm_in_flight: args.storm_in_flight,
        repeat: args.repeat.max(1),
    };
    let questions = bench::questions(&args.tracks, plan.questions)?;
    println!(
        "{} questions of the model's replay; {} clients in the storm, {} answered at once",
        questions.len(),
        plan.storm,
        plan.storm_in_flight
    );
    println!(
        "| answers | way | threads | answers | wall s | CPU s | busy | ready | CPU µs/answer | finder's own | less that | retries | digest |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let rows = bench::bench(&plan, &questions, |r| {
        println!(
            "| {} | {} | {} | {} | {:.2} | {:.2} | {:.0} % | {} | {:.2} | {:.2} | {:.2} | {} | {:016x} |",
            r.cost,
            r.way,
            r.threads,
            r.answers,
            r.wall_s,
            r.cpu_s,
            100.0 * r.cpu_s / r.wall_s,
            r.ready.map_or(String::new(), |share| format!("{:.1} %", 100.0 * share)),
            r.cpu_us(),
            r.engine_us,
            r.cpu_us() - r.engine_us,
            r.retries,
            r.digest
        );
    })?;
    println!("{}", serde_json::to_string(&rows).map_err(|e| Error::Write(e.into()))?);
    if rows.iter().any(|row| row.digest != rows[0].digest) {
        return Err(Error::Ask("the answers differ".to_owned()));
    }
    Ok(())
}

/// Fails if an aim is missed, after the whole report.
fn run_check(args: &CheckArgs) -> Result<ExitCode> {
    let router = Router::new(network(&args.network)?, CACHE_BYTES);
    let report = check::check(&router, &args.data, &mut |line| eprintln!("{line}"))?;
    print!("{}", report.text);
    for aim in &report.missed {
        println!("missed: {aim}");
    }
    Ok(if report.missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
