//! Options of the message experiment, and their defaults.

use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use tdekit_tds_client::{self as tds, DEFAULT_PACKET_BYTES, Login, Mode};
use zeroize::Zeroizing;

use super::given::{Given, MAX_TIME_S, each_once};
use crate::address::ServerUrl;
use crate::error::{BenchError, Result};
use crate::interrupt;
use crate::server_options::{PASSWORD_VARIABLE, ServerOptions, Trust};

/// Rows of the table for selects: with `--quick`, and by default.
const POINT_ROWS: (u32, u32) = (16_384, 131_072);

/// The experiment: options, and from [`MessagesPlan::filled`] on every default.
#[derive(Clone, Args)]
#[command(next_help_heading = "Options of --experiment messages")]
pub(crate) struct MessagesPlan {
    /// Kinds of connections, parted by commas: `off` (the base, always measured), `on` (TLS within
    /// PRELOGIN), `strict` (TDS 8.0). Default: off,on; with a server of the bench's own all three.
    // After filling, those besides `off`.
    #[arg(long = "mode", value_delimiter = ',', value_name = "MODES", value_parser = modes())]
    pub(crate) modes: Vec<Mode>,
    /// Parts of the experiment, parted by commas: `loop` (the message loop), `stream` (a large
    /// result), `connects` (connections made and closed again), `points` (selects of one row by a
    /// prepared statement; on a server of the bench's own beside the same call in its own process),
    /// `idle` (memory of connections that wait). Default: loop,stream.
    #[arg(long = "part", value_delimiter = ',', value_name = "PARTS", value_enum,
          default_values_t = [Part::Loop, Part::Stream], hide_default_value = true)]
    pub(crate) parts: Vec<Part>,
    /// Time the message loop and a large result through a real driver too, where it is installed:
    /// `freetds` (its bsqldb). May be repeated.
    #[arg(long = "driver", value_delimiter = ',', value_name = "DRIVERS")]
    pub(crate) drivers: Vec<DriverName>,
    /// Packet size to ask the server for.
    #[arg(long = "packet-size", value_name = "BYTES", default_value_t = DEFAULT_PACKET_BYTES,
          value_parser = clap::value_parser!(u16).range(512..=32_767))]
    pub(crate) packet_bytes: u16,
    /// Rows of the large result that is streamed; rounded up to a power of two. 0 leaves it out.
    /// Default: 131,072, with --quick 16,384.
    // After filling, a power of two, or 0.
    #[arg(long, default_value = "131072", default_value_if("quick", "true", "16384"),
          hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(0..=100_000_000))]
    pub(crate) stream_rows: u32,
    /// Connections of a block of the part `connects`. Default: 1,000, with --quick 100.
    #[arg(long, value_name = "N", default_value = "1000",
          default_value_if("quick", "true", "100"), hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) connects: u32,
    /// Connections that are being made at a time, in the parts `connects` and `idle`.
    #[arg(long, value_name = "THREADS", default_value_t = 4,
          value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) connect_threads: u32,
    /// Selects of a block of the part `points`. Default: 20,000, with --quick 2,000.
    #[arg(long, value_name = "N", default_value = "20000",
          default_value_if("quick", "true", "2000"), hide_default_value = true,
          value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub(crate) selects: u32,
    /// Connections of the part `idle`.
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) idle: u32,
    /// None to start a server.
    #[arg(skip)]
    pub(crate) target: Option<Target>,
    #[arg(skip = Trust::System)]
    pub(crate) trust: Trust,
    /// Rows of the table that is selected from; a power of two.
    #[arg(skip)]
    pub(crate) point_rows: u32,
    /// Steps of the message loop; none for as many as fill a block.
    #[arg(skip)]
    pub(crate) loops: Option<u64>,
    #[arg(skip)]
    pub(crate) restarts: u32,
    #[arg(skip)]
    pub(crate) pairs: u32,
    #[arg(skip)]
    pub(crate) max_time: Duration,
}

fn modes() -> impl TypedValueParser<Value = Mode> {
    let modes = [Mode::Off, Mode::On, Mode::Strict];
    PossibleValuesParser::new(modes.map(Mode::name)).try_map(move |name| {
        modes.into_iter().find(|mode| mode.name() == name).ok_or("no such kind of connection")
    })
}

/// A part of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    Loop,
    Stream,
    Connects,
    Points,
    Idle,
}

/// A real driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DriverName {
    Freetds,
}

/// A server that is there.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) url: ServerUrl,
    pub(crate) password: Zeroizing<String>,
}

/// Without the password.
impl std::fmt::Debug for MessagesPlan {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("MessagesPlan")
            .field("target", &self.target.as_ref().map(|target| &target.url))
            .field("modes", &self.modes)
            .finish_non_exhaustive()
    }
}

impl MessagesPlan {
    /// The same with every default filled in; `url` is the server's address, where one is named,
    /// and `server` says how to come to it.
    pub(crate) fn filled(
        &self,
        given: &Given,
        url: Option<&ServerUrl>,
        server: &ServerOptions,
    ) -> Result<Self> {
        let target = |url: &ServerUrl| -> Result<_> {
            let password = server.password(url)?.ok_or_else(|| {
                let ways = format!("give --login-password-file or {PASSWORD_VARIABLE}");
                BenchError::option("--target", format!("no password for {url}: {ways}"))
            })?;
            Ok(Target { url: url.clone(), password })
        };
        let target = url.map(target).transpose()?;
        let usual: &[Mode] = match target {
            None => &[Mode::On, Mode::Strict],
            Some(_) => &[Mode::On],
        };
        let named = if self.modes.is_empty() { usual } else { &self.modes };
        let modes = each_once(named.iter().copied().filter(|mode| *mode != Mode::Off));
        if modes.is_empty() {
            let reason = "only plain connections: there is nothing to compare";
            return Err(BenchError::option("--mode", reason));
        }
        Ok(Self {
            // A server that the bench itself starts on loopback makes its certificate itself.
            trust: if target.is_some() { server.trust() } else { Trust::Anyone },
            target,
            modes,
            stream_rows: match self.stream_rows {
                rows @ 1.. if self.parts.contains(&Part::Stream) => rows.next_power_of_two(),
                _ => 0,
            },
            point_rows: given.basics.by_quick(POINT_ROWS),
            loops: given.loops,
            restarts: given.basics.restarts(),
            pairs: given.basics.pairs(),
            max_time: given.max_time(MAX_TIME_S),
            ..self.clone()
        })
    }

    /// Where the server is, and as whom to come.
    pub(crate) fn login(&self) -> Option<Login> {
        let Target { url, password } = self.target.as_ref()?;
        Some(Login {
            host: url.host.clone(),
            port: url.port,
            user: url.user.clone(),
            password: password.clone(),
            database: url.database.clone(),
            trust: (&self.trust).into(),
            packet_bytes: self.packet_bytes,
            stopped: interrupt::requested,
        })
    }
}

impl From<&Trust> for tds::Trust {
    fn from(trust: &Trust) -> Self {
        match trust {
            Trust::System => Self::System,
            Trust::File(path) => Self::File(path.clone()),
            Trust::Anyone => Self::Anyone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tests::parsed;

    #[derive(Args)]
    struct Words {
        #[command(flatten)]
        server: ServerOptions,
        #[command(flatten)]
        plan: MessagesPlan,
    }

    fn plan(words: &[&str], url: Option<&str>) -> Result<MessagesPlan, String> {
        let words: Words = parsed(words).map_err(|error| error.to_string())?;
        let url = url.map(|url| url.parse()).transpose()?;
        let found = words.plan.filled(&parsed(&[]).unwrap(), url.as_ref(), &words.server);
        found.map_err(|error| error.to_string())
    }

    #[test]
    fn an_own_server_is_trusted_and_another_is_not() {
        let own = plan(&[], None).unwrap();
        assert_eq!(own.modes, [Mode::On, Mode::Strict]);
        assert_eq!((own.trust, own.stream_rows), (Trust::Anyone, 131_072));
        let other = plan(&[], Some("mssql://sa:p@host")).unwrap();
        assert_eq!((other.modes.as_slice(), other.trust), (&[Mode::On][..], Trust::System));
        let trusted = plan(&["--trust", "--stream-rows", "1000"], Some("mssql://sa:p@host"));
        let trusted = trusted.unwrap();
        assert_eq!((trusted.trust, trusted.stream_rows), (Trust::Anyone, 1024));
    }

    #[test]
    fn a_password_is_in_no_debug_output() {
        let found = plan(&[], Some("mssql://sa:secret@host")).unwrap();
        assert_eq!(found.target.as_ref().unwrap().password.as_str(), "secret");
        assert!(!format!("{found:?}").contains("secret"));
        assert!(plan(&[], Some("mssql://sa:@host")).is_err());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let alone = plan(&["--part", "points,idle"], None).unwrap();
        assert_eq!((alone.stream_rows, alone.parts.len(), alone.selects), (0, 2, 20_000));
        for words in [
            &["--mode", "off"][..],
            &["--part", "all"][..],
            &["--idle", "0"][..],
            &["--driver", "none"][..],
            &["--mode", "required"][..],
            &["--packet-size", "511"][..],
            &["--packet-size", "32768"][..],
        ] {
            assert!(plan(words, None).is_err(), "{words:?}");
        }
    }
}
