//! SQL statements as a file, with comments; batches of T-SQL are separated by GO.

/// Width of a comment in columns.
const COLUMNS: usize = 100;

/// A script under construction.
#[derive(Default)]
pub(crate) struct Text {
    lines: Vec<String>,
    bytes: usize,
}

impl Text {
    pub(crate) fn line(&mut self, line: impl Into<String>) {
        let line = line.into();
        self.bytes += line.len() + 1;
        self.lines.push(line);
    }

    /// Returns its length.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds lines of a comment. Those that begin with a blank are not broken.
    pub(crate) fn comment(&mut self, text: &str) {
        for line in text.lines() {
            if line.starts_with(' ') || line.is_empty() {
                self.line(format!("-- {line}").trim_end().to_owned());
                continue;
            }
            let mut broken = "--".to_owned();
            for word in line.split(' ') {
                if broken.len() + word.len() >= COLUMNS {
                    self.line(std::mem::replace(&mut broken, "--".to_owned()));
                }
                broken.push(' ');
                broken.push_str(word);
            }
            self.line(broken);
        }
    }

    /// Begins a part.
    pub(crate) fn part(&mut self, what: &str) {
        self.line("");
        self.comment(what);
    }

    pub(crate) fn statement(&mut self, sql: &str) {
        self.line(format!("{sql};"));
    }

    pub(crate) fn batch(&mut self, batch: &str) {
        self.statement(batch);
        self.line("GO");
    }

    pub(crate) fn batches(&mut self, batches: impl IntoIterator<Item = String>) {
        batches.into_iter().for_each(|batch| self.batch(&batch));
    }

    pub(crate) fn finish(self) -> String {
        self.lines.join("\n") + "\n"
    }
}
