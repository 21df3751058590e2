//! The commands of a Markdown document, in order.
//!
//! In a fenced block a line that begins with `$ ` is a command; a backslash at its end joins the
//! next line to it, and lines below it are its output. A command in an indented block is an error.
//! `# exit code N` at a command's end is its exit code, 0 otherwise. HTML comments, which are
//! invisible in the rendered page, control the run:
//!
//! - `<!-- first: COMMANDS -->` runs commands, one a line, without showing them to the reader.
//! - `<!-- not run: WHY -->` leaves the next fenced block out;
//!   `<!-- not run "PART": WHY -->` only its commands that hold that part.
//! - `<!-- in the background until "TEXT": PART -->`: the next block's command that holds `PART`
//!   keeps running while the others run, which begin once it has printed the text.
//! - `<!-- run as "B" for "A" -->`: from here on, each `A` in a command is run as `B`.
//! - `<!-- with s3 -->`, `<!-- with mariadb -->`: the clients of either find a server on loopback.

use anyhow::{Context, Result, bail, ensure};

/// Programs whose lines in a fenced block are commands, so must be marked by a `$`.
const COMMANDS: [&str; 6] =
    ["tdekit ", "sqlite3 ", "cargo ", "mariadb-backup ", "mariadb ", "systemctl "];

/// A document's commands, and their requirements.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) steps: Vec<Step>,
    pub(super) with_s3: bool,
    pub(super) with_mariadb: bool,
}

/// A command and its expected result.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// Its line in the document, from 1.
    pub(super) line: usize,
    /// As written in the document.
    pub(super) shown: String,
    /// As executed.
    pub(super) run: String,
    pub(super) exit_code: i32,
    /// The expected output, by line, with `...` for text that may vary.
    pub(super) output: Vec<String>,
    /// It continues in the background once it has printed this.
    pub(super) background_until: Option<String>,
}

/// Reads a document.
///
/// # Errors
/// When a control comment is incomplete, or a command in a fenced block has no `$`.
pub(super) fn parse(text: &str) -> Result<Document> {
    let mut reader = Reader::default();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let indented = line.strip_prefix("    ").filter(|_| !reader.in_fence);
        if indented.is_some_and(|line| COMMANDS.iter().any(|name| line.starts_with(name))) {
            bail!("line {}: a command in an indented block: fence it", at + 1);
        }
        let mut line = line.trim_start().to_owned();
        let is_open = |line: &str| match reader.in_fence {
            true => line.starts_with("$ ") && line.ends_with('\\'),
            false => line.starts_with("<!--") && !line.trim_end().ends_with("-->"),
        };
        while is_open(&line) {
            let (_, next) = lines.next().with_context(|| format!("line {}: no end", at + 1))?;
            line.push('\n');
            line.push_str(next.trim());
        }
        reader.take(at + 1, &line).with_context(|| format!("line {}", at + 1))?;
    }
    ensure!(!reader.in_fence, "a fenced block has no end");
    ensure!(
        reader.skip.is_empty() && reader.background.is_none(),
        "a steering comment has no fenced block behind it"
    );
    Ok(reader.document)
}

#[derive(Default)]
struct Reader {
    document: Document,
    in_fence: bool,
    /// True if the block has a language, by its first line.
    is_code: bool,
    /// Parts of commands that are left out of the next block; empty for all.
    skip: Vec<String>,
    background: Option<(String, String)>,
    replacements: Vec<(String, String)>,
    /// True if lines that follow are the output of the last step.
    has_command: bool,
}

impl Reader {
    fn take(&mut self, at: usize, line: &str) -> Result<()> {
        if line.starts_with("```") {
            if self.in_fence {
                self.skip.clear();
                ensure!(self.background.is_none(), "no command for the background is in the block");
            }
            self.in_fence = !self.in_fence;
            self.is_code = !matches!(line.trim_start_matches('`').trim(), "" | "sh");
            self.has_command = false;
            return Ok(());
        }
        if !self.in_fence {
            return match line.strip_prefix("<!--").and_then(|rest| rest.trim().strip_suffix("-->"))
            {
                Some(comment) => self.steer(at, comment.trim()),
                None => Ok(()),
            };
        }
        if self.is_code {
            ensure!(!line.starts_with("$ "), "a command in a block of a language: {line}");
        } else if let Some(command) = line.strip_prefix("$ ") {
            self.command(at, command);
        } else if self.has_command {
            if let Some(step) = self.document.steps.last_mut()
                && !line.is_empty()
            {
                step.output.push(line.trim_end().to_owned());
            }
        } else if COMMANDS.iter().any(|name| line.starts_with(name)) && self.skip.is_empty() {
            bail!("a command without a `$`: {line}");
        }
        Ok(())
    }

    fn command(&mut self, at: usize, shown: &str) {
        self.has_command = !self.skip.iter().any(|part| shown.contains(part));
        if !self.has_command {
            return;
        }
        let mut step = self.step(at, shown);
        if let Some((_, until)) = self.background.take_if(|(part, _)| shown.contains(&**part)) {
            step.background_until = Some(until);
        }
        self.document.steps.push(step);
    }

    fn step(&self, line: usize, shown: &str) -> Step {
        let (code, comment) = shown.rsplit_once(" # ").unwrap_or((shown, ""));
        let exit = comment.split("exit code ").nth(1).and_then(|rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().ok()
        });
        let mut run = code.trim_end().to_owned();
        for (from, to) in &self.replacements {
            run = run.replace(from, to);
        }
        let shown = code.trim_end().to_owned();
        Step { line, shown, run, exit_code: exit.unwrap_or(0), ..Step::default() }
    }

    fn steer(&mut self, at: usize, comment: &str) -> Result<()> {
        if let Some(commands) = comment.strip_prefix("first:") {
            let commands = commands.trim();
            let mut step = self.step(at, commands);
            // A `#` within the command belongs to the shell.
            step.run = self
                .replacements
                .iter()
                .fold(commands.to_owned(), |run, (from, to)| run.replace(from, to));
            step.shown = commands.lines().next().unwrap_or_default().to_owned();
            step.exit_code = 0;
            self.document.steps.push(step);
        } else if let Some(rest) = comment.strip_prefix("not run") {
            let (part, why) = rest.split_once(':').context("`not run` says no reason")?;
            ensure!(!why.trim().is_empty(), "`not run` says no reason");
            self.skip.push(part.trim().trim_matches('"').to_owned());
        } else if let Some(rest) = comment.strip_prefix("in the background until ") {
            let (until, part) =
                rest.split_once(':').context("`in the background` names no part")?;
            let until = until.trim().trim_matches('"').to_owned();
            self.background = Some((part.trim().to_owned(), until));
        } else if let Some(rest) = comment.strip_prefix("run as ") {
            let (to, from) = rest.split_once(" for ").context("`run as` names nothing")?;
            let unquoted = |text: &str| text.trim().trim_matches('"').to_owned();
            self.replacements.push((unquoted(from), unquoted(to)));
        } else if comment == "with s3" {
            self.document.with_s3 = true;
        } else if comment == "with mariadb" {
            self.document.with_mariadb = true;
        }
        // Any other comment has another purpose.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_with_what_is_to_come_of_them() {
        let text = "\
Text.
<!-- first: touch a -->
<!-- run as \"here\" for \"there\" -->
```
$ cat there      # shows it
one ...
$ false \\
  --there          # refused: exit code 3, nothing is changed
```
<!-- not run \"make\": it would run itself -->
```
$ make test
$ echo 1 # not a code
```
<!-- in the background until \"listening on\": serve -->
```
$ serve x
```
";
        let steps = parse(text).unwrap().steps;
        let run: Vec<_> = steps.iter().map(|step| (&*step.run, step.exit_code)).collect();
        let joined = "false \\\n--here";
        assert_eq!(
            run,
            [("touch a", 0), ("cat here", 0), (joined, 3), ("echo 1", 0), ("serve x", 0)]
        );
        assert_eq!(steps[1].output, ["one ..."]);
        assert_eq!(steps[1].line, 5);
        assert_eq!(steps[4].background_until.as_deref(), Some("listening on"));
    }

    #[test]
    fn what_would_be_passed_over_is_an_error() {
        for text in [
            "```\ntdekit status\n```\n",
            "```console\n$ tdekit status\n```\n",
            "Text.\n\n    tdekit status\n",
            "```\n$ true\n",
            "<!-- not run: x -->\n",
            "<!-- not run: -->\n```\n```\n",
            "<!-- in the background until \"x\": serve -->\n```\n$ true\n```\n",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let code = "```go\nimport (\n\ttdekit \"tdekit/go\"\n)\n```\n";
        assert_eq!(parse(code).unwrap(), Document::default());
    }
}
