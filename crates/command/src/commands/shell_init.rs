//! `tdekit shell-init`: the code with which each shell and language loads the SQLite extension.
//!
//! It prints files of the packages and of `tests/interop/`, which the interoperability tests run.

use clap::{Args, ValueEnum};

use crate::commands::sqlite::extension;
use crate::error::CommandError;
use tdekit_console::output;

const BASH: &str = include_str!("../../../../tests/interop/sqlite-shell/tdekit.bash");
const PYTHON: &str = include_str!("../../../../tests/interop/python/tdekit.py");
const NODE: &str = include_str!("../../../../packages/node/tdekit/index.js");
const GO: &str = include_str!("../../../../packages/go/tdekit.go");
const JAVA: &str = include_str!("../../../../packages/java/Tdekit.java");

const BASH_USE: &str = "\
# To have this in every shell, put this line in ~/.bashrc or ~/.zshrc:
#   eval \"$(tdekit shell-init bash)\"
#
";
const PYTHON_USE: &str = "\
# To have every Python program of yours open encrypted databases, without a change to any:
#   dir=\"$(python3 -m site --user-site)\" && mkdir -p \"$dir\"
#   tdekit shell-init python >\"$dir/tdekit.py\"
#   echo 'import tdekit; tdekit.load()' >\"$dir/tdekit.pth\"
# (Python runs the lines of .pth files that begin with `import` when it starts.) In a virtual
# environment the directory is what `python3 -c 'import site; print(site.getsitepackages()[0])'`
# prints. Without the .pth file, a program calls `tdekit.load()` itself, once.
";
const NODE_USE: &str = "\
// Save this as tdekit.js beside your program:
//   tdekit shell-init node >tdekit.js
// To load it without a change to the program, save beside it
//   echo \"require('./tdekit').load(require('better-sqlite3'))\" >tdekit-preload.js
// and start it with `node --require ./tdekit-preload.js` (or NODE_OPTIONS in its environment).
";
const GO_USE: &str = "\
// Save this as tdekit/tdekit.go in your module:
//   mkdir tdekit && tdekit shell-init go >tdekit/tdekit.go
// import it as \"YOUR/MODULE/tdekit\", and call it before the first database is opened:
//   if err := tdekit.Load(\"\"); err != nil {
//       log.Fatal(err)
//   }
//
";
const JAVA_USE: &str = "\
// Save this as tdekit/Tdekit.java among your program's sources:
//   mkdir tdekit && tdekit shell-init java >tdekit/Tdekit.java
// and call tdekit.Tdekit.load() first in main (or in a static block of the main class).
";

/// A program that can load the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Host {
    /// A bash or zsh function around the stock sqlite3 shell
    Bash,
    /// Lines for ~/.sqliterc
    Sqlite,
    /// A module for the stock sqlite3 module of Python
    Python,
    /// A module for better-sqlite3 of Node
    Node,
    /// A file for mattn/go-sqlite3 of Go
    Go,
    /// A class for sqlite-jdbc of Java
    Java,
}

/// Arguments of `shell-init`.
#[derive(Debug, Args)]
pub(crate) struct ShellInitArgs {
    /// The program that shall load the extension
    #[arg(value_enum, default_value = "bash")]
    host: Host,
}

/// Runs the command.
pub(crate) fn run(args: &ShellInitArgs) -> Result<(), CommandError> {
    let (about, text) = match args.host {
        Host::Bash => (BASH_USE, BASH.to_owned()),
        Host::Sqlite => ("", sqliterc()?),
        Host::Python => (PYTHON_USE, PYTHON.to_owned()),
        Host::Node => (NODE_USE, NODE.to_owned()),
        Host::Go => (GO_USE, GO.to_owned()),
        Host::Java => (JAVA_USE, JAVA.to_owned()),
    };
    Ok(output::line(format_args!("{about}{}", text.trim_end()))?)
}

fn sqliterc() -> Result<String, CommandError> {
    let path = extension()?.display().to_string();
    let quoted = path.replace('\\', "\\\\").replace('"', "\\\"");
    Ok(format!(
        "-- For ~/.sqliterc: tdekit shell-init sqlite >>~/.sqliterc\n\
         -- The shell opens the file named on its command line before it reads this, but a URI\n\
         -- only when it is used: start it by `sqlite3 file:app.db`, or use the function that\n\
         -- `tdekit shell-init bash` prints. Where `.open` meets a file that does not open, it\n\
         -- goes on with a temporary database: what is written then is lost.\n\
         .connection 1\n\
         .load \"{quoted}\"\n\
         .connection 0\n\
         .connection close 1\n"
    ))
}
