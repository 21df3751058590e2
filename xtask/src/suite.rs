//! The suites beyond `make test`: the full form of each, and the packages on which it depends.

use anyhow::Result;
use clap::ValueEnum;

use crate::attack;
use crate::crate_tests::{Form, TestBuild};
use crate::documents;
use crate::fips;
use crate::full::FullRun;
use crate::interop::{Choice, interop};
use crate::plane::Plane;
use crate::reach::{Change, Graph};
use crate::s3_server::S3Server;
use crate::tally::Tally;
use crate::times::Times;

/// Packages of all programs and libraries that documents and clients use.
const SHIPPED: [&str; 7] = [
    "tdekit",
    "tdekit-bench-run",
    "tdekit-mariadb-plugin",
    "tdekit-mysql-component",
    "tdekit-serve",
    "tdekit-sqlite-preload",
    "tdekit-sqlite-vfs",
];

/// A suite in its full form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The tests of a plane's packages.
    Plane(Plane),
    /// Attacks on the command's verdicts.
    Attacks,
    /// Every command of README.md and docs/*.md.
    Documents,
    /// Stock clients of SQLite, databases made by others, media, pages and imports.
    Clients,
    /// Clients of SQL Server.
    WireClients,
    /// Object mappers and tools.
    Recipes,
    /// Packages of the shipped programs, from the release build.
    Packages,
    /// The build on AWS-LC's FIPS module.
    Fips,
}

/// Returns the suite of this name, for the command line.
///
/// # Errors
/// The names that there are.
pub(crate) fn named(name: &str) -> Result<Suite, String> {
    let mut all = Suite::all().into_iter();
    all.find(|suite| suite.name() == name).ok_or_else(|| {
        let names: Vec<_> = Suite::all().into_iter().map(Suite::name).collect();
        format!("there are: {}", names.join(", "))
    })
}

impl Suite {
    /// Returns every suite, those without a separate build first.
    pub(crate) fn all() -> Vec<Self> {
        let planes = Plane::value_variants().iter().copied().map(Self::Plane);
        let rest = [
            Self::Attacks,
            Self::Documents,
            Self::Clients,
            Self::WireClients,
            Self::Recipes,
            Self::Fips,
            Self::Packages,
        ];
        planes.chain(rest).collect()
    }

    /// Returns true if a landing runs it: all but those that compile the workspace again or fetch
    /// all of a language's tools.
    pub(crate) fn lands(self) -> bool {
        !matches!(self, Self::Recipes | Self::Packages | Self::Fips)
    }

    /// Returns its name in `.ci/full` and in the output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plane(plane) => plane.name(),
            Self::Attacks => "attacks",
            Self::Documents => "documents",
            Self::Clients => "clients",
            Self::WireClients => "wire-clients",
            Self::Recipes => "recipes",
            Self::Packages => "packages",
            Self::Fips => "fips",
        }
    }

    /// Runs it, on the test build and the programs of [`crate::shipped`].
    ///
    /// # Errors
    /// When it cannot be run. Failing tests are in the tally.
    pub(crate) fn run(self, build: &TestBuild, programs: &mut Times) -> Result<Tally> {
        match self {
            Self::Plane(plane) => {
                let server = S3Server::start()?;
                build.run(&plane.packages()?, Form::Full, Some(&server), programs)
            }
            Self::Attacks => attack::counted(attack::FULL),
            Self::Documents => documents::documents(None),
            Self::Clients => interop(Choice::Clients, false),
            Self::WireClients => interop(Choice::Wire, false),
            Self::Recipes => interop(Choice::Recipes, false),
            Self::Packages => interop(Choice::Packages, false),
            Self::Fips => fips::test(),
        }
    }

    /// Returns true if something that it tests has changed since `last`, or may have.
    pub(crate) fn is_reached(self, graph: &Graph, last: Option<&FullRun>) -> Result<bool> {
        let Some(last) = last else { return Ok(true) };
        let change = match Change::since(&last.commit) {
            Ok(change) => change,
            Err(error) => {
                eprintln!("{}: counts as reached: {error:#}", self.name());
                return Ok(true);
            }
        };
        let (packages, paths) = self.made_of()?;
        Ok(change.touches(paths) || graph.reaches(&change, &packages))
    }

    /// Returns the packages and other paths whose change may affect it.
    fn made_of(self) -> Result<(Vec<String>, &'static [&'static str])> {
        let shipped = SHIPPED.map(str::to_owned).to_vec();
        Ok(match self {
            Self::Plane(plane) => (plane.packages()?, &[]),
            Self::Attacks => (vec!["tdekit-attacks".to_owned()], &[]),
            Self::Documents => (shipped, &["README.md", "docs/"]),
            Self::Clients | Self::WireClients | Self::Recipes => {
                (shipped, &["tests/interop/", "packages/", "docs/recipes.md"])
            }
            Self::Packages => (shipped, &["packages/"]),
            Self::Fips => {
                (["tdekit", "tdekit-serve"].map(str::to_owned).to_vec(), &["packages/fips/"])
            }
        })
    }
}
