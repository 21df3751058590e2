//! Batches of T-SQL as a file: parted by GO, with comments.

/// Columns of a comment.
const COLUMNS: usize = 100;

/// A script that grows.
#[derive(Default)]
pub(super) struct Text {
    lines: Vec<String>,
    bytes: usize,
}

impl Text {
    fn line(&mut self, line: String) {
        self.bytes += line.len() + 1;
        self.lines.push(line);
    }

    /// Its length.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lines of a comment. Those that begin with a blank are not broken.
    pub(super) fn comment(&mut self, text: &str) {
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
    pub(super) fn part(&mut self, what: &str) {
        self.line(String::new());
        self.comment(what);
    }

    pub(super) fn batch(&mut self, batch: &str) {
        self.line(format!("{batch};"));
        self.line("GO".to_owned());
    }

    pub(super) fn batches(&mut self, batches: impl IntoIterator<Item = String>) {
        batches.into_iter().for_each(|batch| self.batch(&batch));
    }

    pub(super) fn finish(self) -> String {
        self.lines.join("\n") + "\n"
    }
}
