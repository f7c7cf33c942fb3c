//! The commands and their flags.

use std::path::PathBuf;

use arioso_server::settings::SETTINGS;
use clap::{Arg, ArgAction, Args, Command, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

/// An ordered, durable message bus in which reading a slice of the stream costs what the slice weighs.
#[derive(Debug, Parser)]
#[command(name = "arioso", version, max_term_width = 100, disable_help_subcommand = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Shows the whole bus on real files, in one process, explained as it goes
    #[command(
        after_help = "Examples:\n  arioso demo\n  arioso demo --tree /usr/share/doc\n  arioso demo --tree . --all --keep"
    )]
    Demo(DemoArgs),
    /// The server that the demo kills
    #[command(hide = true)]
    DemoServer {
        /// Data directory.
        data: PathBuf,
        /// Bytes of a segment.
        segment_bytes: u64,
    },
    /// Runs a server
    #[command(
        after_help = "Examples:\n  arioso serve --data /var/lib/arioso\n  arioso serve --journal postgres://bus@db.example/bus\n  arioso serve --config arioso.toml --print-config"
    )]
    Serve(ServeArgs),
    /// Publishes one message, or many from JSON lines
    #[command(
        after_help = "Examples:\n  arioso pub orders/eu/4711 '{\"state\":\"paid\"}'\n  arioso pub --jsonl day.jsonl.zst\n  \
                            some-program | arioso pub --jsonl -\n  arioso pub a/b x --publisher sensor-7\n  arioso pub a/b x --expect a/b=0\n  \
                            arioso pub --jsonl order.jsonl --atomic --expect 'orders/**=4711'"
    )]
    Pub(PubArgs),
    /// Follows topics and subtrees, from any place in the stream
    #[command(
        after_help = "Examples:\n  arioso sub 'orders/**'\n  arioso sub 'orders/*/4711' news --from start --until-end\n  \
                            arioso sub '**' --from @2026-01-31T08:00:00Z --count 10\n  \
                            arioso sub 'orders/**' --cursor billing"
    )]
    Sub(SubArgs),
    /// Tells what following topics and subtrees would read, and how much of it is useful
    #[command(
        after_help = "Examples:\n  arioso explain 'orders/eu/**'\n  arioso explain orders/eu/4711 --from @2026-01-31T08:00:00Z --json"
    )]
    Explain(ExplainArgs),
    /// Lists topics: topic, messages, bytes, last sequence
    #[command(after_help = "Examples:\n  arioso topics\n  arioso topics 'orders/**' --json")]
    Topics(TopicsArgs),
    /// Lists, sets or drops cursors: durable named positions
    #[command(after_help = "Examples:\n  arioso cursors list\n  arioso cursors set billing 4711\n  \
                            arioso cursors set billing 1 'orders/**'\n  arioso cursors drop billing")]
    Cursors(CursorsArgs),
    /// Lists or drops named publishers
    #[command(after_help = "Examples:\n  arioso publishers list\n  arioso publishers drop sensor-7")]
    Publishers(PublishersArgs),
    /// Copies a running server's stream to a folder; a server started on that goes on from there
    #[command(
        after_help = "Examples:\n  arioso backup /var/backups/arioso-monday\n  arioso serve --data /var/backups/arioso-monday"
    )]
    Backup(BackupArgs),
    /// Shows split plans of a topic tree side by side, as a table or on a page
    Lab(arioso_lab::LabArgs),
    /// Verifies every checksum of a data directory that no server has open, and lists what is in it
    #[command(
        after_help = "Exit status: 0 if everything is right (a torn tail after a crash is), 1 if anything is wrong.\n\n\
                            Examples:\n  arioso inspect /var/lib/arioso\n  arioso inspect /var/lib/arioso --json"
    )]
    Inspect(InspectArgs),
    /// Measures the bus on this machine, beside what the machine itself can do
    #[command(subcommand, after_help = "Examples:\n  arioso bench publish\n  arioso bench replay --messages 500000")]
    Bench(arioso_lab::Bench),
    /// Prints a completion script for a shell
    #[command(after_help = "Examples:\n  arioso completions bash > /etc/bash_completion.d/arioso")]
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Writes the manual page, or all of them into a directory
    #[command(after_help = "Examples:\n  arioso man | man -l -\n  arioso man --out /usr/local/share/man/man1")]
    Man {
        /// Write a page a command into this directory.
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
}

/// Flags of `demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Take the files below this directory [default: the Rust toolchain, /usr/share/doc or the current directory]
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Take all of them, not only the first 20,000 files or 1 GiB
    #[arg(long)]
    pub all: bool,
    /// Keep the data directory and say where it is
    #[arg(long)]
    pub keep: bool,
}

/// Flags of `inspect`.
#[derive(Debug, Args)]
pub struct InspectArgs {
    /// Data directory
    pub dir: PathBuf,
    /// JSON lines instead of text
    #[arg(long)]
    pub json: bool,
}

/// Where the server is.
#[derive(Clone, Debug, Args)]
pub struct At {
    /// Address of the server
    #[arg(long, value_name = "ADDR", env = "ARIOSO_SERVER", default_value = "127.0.0.1:7420")]
    pub server: String,
    /// Give up when the server can't be reached for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub connect_timeout: f64,
}

/// Flags of `serve`; the settings are added from their table.
#[derive(Debug)]
pub struct ServeArgs {
    /// A file of settings.
    pub config: Option<PathBuf>,
    /// Show the settings and end.
    pub print_config: bool,
    /// Settings given as flags: name and text.
    pub flags: Vec<(String, String)>,
    /// Settings given in the environment: name, variable and text.
    pub variables: Vec<(String, String, String)>,
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &clap::ArgMatches) -> Result<ServeArgs, clap::Error> {
        let text = |name: &str| matches.get_one::<String>(name).cloned();
        let mut flags = Vec::new();
        let mut variables = Vec::new();
        for setting in SETTINGS {
            let given = matches.value_source(setting.name) == Some(clap::parser::ValueSource::CommandLine);
            if given && setting.switch {
                flags.push((setting.name.to_string(), "true".to_string()));
            } else if let Some(value) = text_of(matches, setting).filter(|_| given) {
                flags.push((setting.name.to_string(), value));
            }
            if let Ok(value) = std::env::var(setting.variable()) {
                variables.push((setting.name.to_string(), setting.variable(), value));
            }
        }
        Ok(ServeArgs {
            config: text("config").map(PathBuf::from),
            print_config: matches.get_flag("print-config"),
            flags,
            variables,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &clap::ArgMatches) -> Result<(), clap::Error> {
        *self = ServeArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

fn text_of(matches: &clap::ArgMatches, setting: &arioso_server::settings::Setting) -> Option<String> {
    if setting.switch { None } else { matches.get_one::<String>(setting.name).cloned() }
}

impl Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let mut command = command
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE.toml")
                    .env("ARIOSO_CONFIG")
                    .help("Read settings from this file; variables and flags go before it"),
            )
            .arg(
                Arg::new("print-config")
                    .long("print-config")
                    .action(ArgAction::SetTrue)
                    .help("Print the settings as they result from file, variables and flags, and end"),
            );
        let defaults = arioso_server::settings::Settings::default();
        for setting in SETTINGS {
            let help = format!(
                "{} [default: {}] [env: {}]",
                setting.help.trim_end_matches('.'),
                setting.get(&defaults),
                setting.variable()
            );
            let arg = Arg::new(setting.name).long(setting.name).help(help).help_heading("Settings");
            let arg = if setting.switch {
                arg.action(ArgAction::SetTrue)
            } else {
                arg.value_name(setting.value).allow_hyphen_values(true)
            };
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        ServeArgs::augment_args(command)
    }
}

/// When a message is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Ack {
    /// When it is durable.
    #[default]
    Durable,
    /// When it has its number.
    Sequenced,
}

/// Flags of `pub`.
#[derive(Debug, Args)]
pub struct PubArgs {
    #[command(flatten)]
    pub at: At,
    /// Topic of the message
    #[arg(required_unless_present = "jsonl", conflicts_with = "jsonl")]
    pub topic: Option<String>,
    /// Payload; read from standard input when left out
    pub payload: Option<String>,
    /// Publish JSON lines from a file (.zst and .gz are read too), - for standard input
    #[arg(long, value_name = "FILE")]
    pub jsonl: Option<String>,
    /// Publish once only under this name: a retry stores nothing twice
    #[arg(long, value_name = "NAME")]
    pub publisher: Option<String>,
    /// Answered when durable, or already when numbered
    #[arg(long, value_enum, default_value_t)]
    pub ack: Ack,
    /// Only if the newest message that matches FILTER has this sequence (0: none)
    #[arg(long, value_name = "FILTER=SEQ")]
    pub expect: Option<String>,
    /// Publish all lines or none of them, as one atomic batch of up to 4,096 messages and 16 MiB
    #[arg(long, requires = "jsonl", conflicts_with = "skip_bad")]
    pub atomic: bool,
    /// A header of the message, again for each
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "jsonl")]
    pub header: Vec<String>,
    /// Event time of the message (RFC 3339)
    #[arg(long, value_name = "TIME", conflicts_with = "jsonl")]
    pub event_time: Option<String>,
    /// Count bad lines and go on instead of stopping at the first
    #[arg(long, requires = "jsonl")]
    pub skip_bad: bool,
    /// Pass over keys that are not known
    #[arg(long, requires = "jsonl")]
    pub ignore_unknown: bool,
}

/// How messages are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A JSON line each.
    #[default]
    Json,
    /// The payload and a newline.
    Raw,
}

/// Flags of `sub`.
#[derive(Debug, Args)]
pub struct SubArgs {
    #[command(flatten)]
    pub at: At,
    /// Topics and subtrees: a/b, a/b/**, a/*/c, **
    #[arg(required = true)]
    pub filters: Vec<String>,
    /// Begin at: start, live, last (the newest message of every matching topic, then live), a sequence, or @ and a time (RFC 3339)
    ///
    /// [default: live; with a cursor where it stands, or start if it is new]
    #[arg(long, value_name = "start|live|last|SEQ|@TIME")]
    pub from: Option<String>,
    /// Hold this cursor, which is made if there is none: begin where it stands and move it behind what was printed
    #[arg(long, value_name = "NAME")]
    pub cursor: Option<String>,
    /// End behind the last message that was acknowledged when the subscription began
    #[arg(long)]
    pub until_end: bool,
    /// End after so many messages
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// How messages are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Print progress marks too: {"through":N} says that everything up to N was printed
    #[arg(long, conflicts_with = "format")]
    pub marks: bool,
}

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub at: At,
    /// Topics and subtrees: a/b, a/b/**, a/*/c, **
    #[arg(required = true)]
    pub filters: Vec<String>,
    /// Begin at: start, live, a sequence, or @ and a time (RFC 3339)
    #[arg(long, value_name = "start|live|SEQ|@TIME", default_value = "start")]
    pub from: String,
    /// A JSON line instead of text
    #[arg(long)]
    pub json: bool,
}

/// Flags of `topics`.
#[derive(Debug, Args)]
pub struct TopicsArgs {
    #[command(flatten)]
    pub at: At,
    /// Only topics that match
    #[arg(default_value = "**")]
    pub filter: String,
    /// JSON lines instead of tab-separated values
    #[arg(long)]
    pub json: bool,
}

/// Flags of `backup`.
#[derive(Debug, Args)]
pub struct BackupArgs {
    #[command(flatten)]
    pub at: At,
    /// A folder on the server's machine, made if missing, else empty
    pub out: PathBuf,
}

/// Flags of `cursors`.
#[derive(Debug, Args)]
pub struct CursorsArgs {
    #[command(flatten)]
    pub at: At,
    #[command(subcommand)]
    pub verb: CursorsVerb,
}

/// What to do with cursors.
#[derive(Debug, Subcommand)]
pub enum CursorsVerb {
    /// Lists them: name, next sequence, last used, filters
    List {
        /// JSON lines instead of tab-separated values
        #[arg(long)]
        json: bool,
    },
    /// Makes one, or moves it and fences its holder
    Set {
        /// Its name
        name: String,
        /// The next message it wants
        next: u64,
        /// Its filters; one that exists keeps those it has
        filters: Vec<String>,
    },
    /// Forgets one and fences its holder
    Drop {
        /// Its name
        name: String,
    },
}

/// Flags of `publishers`.
#[derive(Debug, Args)]
pub struct PublishersArgs {
    #[command(flatten)]
    pub at: At,
    #[command(subcommand)]
    pub verb: PublishersVerb,
}

/// What to do with publishers.
#[derive(Debug, Subcommand)]
pub enum PublishersVerb {
    /// Lists them: name, id, epoch, last publisher sequence, last used
    List {
        /// JSON lines instead of tab-separated values
        #[arg(long)]
        json: bool,
    },
    /// Forgets one; what it published stays
    Drop {
        /// Its name
        name: String,
    },
}

/// The whole command, for completions and manual pages.
pub fn command() -> Command {
    Cli::command()
}
