//! The text of a CREATE TABLE as SQLite keeps it, split at its commas.

/// The text before the columns, the columns and constraints, the text after them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TableText {
    head: String,
    items: Vec<String>,
    tail: String,
}

/// A PRIMARY KEY or UNIQUE that is not part of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KeyText {
    /// Index of its item.
    pub(super) item: usize,
    pub(super) name: Option<String>,
    /// `("a", "b" DESC)`.
    pub(super) columns: String,
}

/// The definition of a column.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ColumnItem {
    /// Index of its item.
    pub(super) item: usize,
    /// `DEFAULT ..`, to the end of the item.
    pub(super) default: Option<String>,
}

impl TableText {
    /// Parses the text; None if it is not understood.
    pub(super) fn parse(sql: &str) -> Option<TableText> {
        let (mut depth, mut start) = (0_usize, 0);
        let (mut head, mut items) = (None, Vec::new());
        for (at, token) in tokens(sql) {
            match token {
                "(" => {
                    depth += 1;
                    if depth == 1 {
                        head = Some(sql[..=at].to_owned());
                        start = at + 1;
                    }
                }
                "," if depth == 1 => {
                    items.push(sql[start..at].to_owned());
                    start = at + 1;
                }
                ")" => {
                    depth = depth.checked_sub(1)?;
                    if depth == 0 {
                        items.push(sql[start..at].to_owned());
                        return Some(TableText { head: head?, items, tail: sql[at..].to_owned() });
                    }
                }
                _ => {}
            }
        }
        None
    }

    pub(super) fn add(&mut self, item: &str) {
        self.items.push(format!(" {item}"));
    }

    pub(super) fn remove(&mut self, item: usize) {
        if item < self.items.len() {
            self.items.remove(item);
        }
    }

    /// Renames a constraint that stands beside the columns. Returns false if there is none of this
    /// name.
    pub(super) fn rename_constraint(&mut self, old: &str, new: &str) -> bool {
        let place = |text: &String| {
            let mut parts = tokens(text).filter(|(_, token)| !is_blank(token));
            parts.next().filter(|(_, word)| word.eq_ignore_ascii_case("CONSTRAINT"))?;
            let (at, name) = parts.next()?;
            unquoted(name).eq_ignore_ascii_case(old).then_some(at..at + name.len())
        };
        let found = self.items.iter_mut().find_map(|text| Some((place(text)?, text)));
        let Some((at, text)) = found else { return false };
        text.replace_range(at, &crate::name::quote(new));
        true
    }

    pub(super) fn replace(&mut self, item: usize, text: &str) {
        if let Some(old) = self.items.get_mut(item) {
            let blanks = old.len() - old.trim_start().len();
            old.replace_range(blanks.., text);
        }
    }

    /// Finds the definition of a column by its name. None if it has constraints of its own: those
    /// of T-SQL's tables stand beside the columns.
    pub(super) fn column(&self, name: &str) -> Option<ColumnItem> {
        const OWN: [&str; 8] =
            ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "GENERATED", "AS", "ON"];
        let first = |text: &str| {
            let found = tokens(text).find(|(_, token)| !is_blank(token));
            found.map(|(_, token)| (unquoted(token), token.starts_with(['"', '[', '`'])))
        };
        let is_it = |text: &&String| {
            let found = first(text);
            found.is_some_and(|(own, quoted)| {
                let word = !quoted && OWN[..4].iter().any(|word| own.eq_ignore_ascii_case(word));
                !word && own.eq_ignore_ascii_case(name)
            })
        };
        let (item, text) = (0..).zip(&self.items).find(|(_, text)| is_it(text))?;
        let mut words = tokens(text).filter(|(_, token)| !is_blank(token)).skip(1);
        if words.any(|(_, token)| OWN.iter().any(|word| token.eq_ignore_ascii_case(word))) {
            return None;
        }
        let mut all = tokens(text);
        let default = all.find(|(_, token)| token.eq_ignore_ascii_case("DEFAULT"));
        let default = default.map(|(at, _)| text[at..].trim_end().to_owned());
        Some(ColumnItem { item, default })
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}{}", self.head, self.items.join(","), self.tail)
    }

    /// Returns the keys that are not part of a column, in their order.
    pub(super) fn keys(&self) -> Vec<KeyText> {
        let items = self.items.iter().enumerate();
        items.filter_map(|(at, item)| key(at, item)).collect()
    }
}

fn key(item: usize, text: &str) -> Option<KeyText> {
    let mut parts = tokens(text).filter(|(_, token)| !is_blank(token));
    let (_, mut word) = parts.next()?;
    let mut name = None;
    if word.eq_ignore_ascii_case("CONSTRAINT") {
        name = Some(unquoted(parts.next()?.1));
        word = parts.next()?.1;
    }
    if word.eq_ignore_ascii_case("PRIMARY") {
        parts.next().filter(|(_, word)| word.eq_ignore_ascii_case("KEY"))?;
    } else if !word.eq_ignore_ascii_case("UNIQUE") {
        return None;
    }
    let (start, _) = parts.next().filter(|(_, token)| *token == "(")?;
    let (end, _) = parts.find(|(_, token)| *token == ")")?;
    // nothing may follow: T-SQL has no ON CONFLICT
    parts.next().is_none().then(|| KeyText { item, name, columns: text[start..=end].to_owned() })
}

fn is_blank(token: &str) -> bool {
    let comment = token.starts_with("--") || token.starts_with("/*");
    comment || token.chars().all(char::is_whitespace)
}

fn unquoted(token: &str) -> String {
    let mut chars = token.chars();
    let inner = || token.get(1..token.len().saturating_sub(1)).unwrap_or_default();
    match chars.next() {
        Some(mark @ ('"' | '`' | '\'')) => {
            inner().replace(&format!("{mark}{mark}"), &mark.to_string())
        }
        Some('[') => inner().to_owned(),
        _ => token.to_owned(),
    }
}

/// Returns the tokens of SQLite's language with their positions: enough of it to recognise text and
/// comments.
fn tokens(sql: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = &sql[at..];
        let first = rest.chars().next()?;
        let length = match first {
            '"' | '\'' | '`' => quoted(rest, first),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            '-' if rest.starts_with("--") => rest.find('\n').map_or(rest.len(), |end| end + 1),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            c if c.is_whitespace() => run(rest, char::is_whitespace),
            c if is_word(c) => run(rest, is_word),
            c => c.len_utf8(),
        };
        let token = (at, &rest[..length]);
        at += length;
        Some(token)
    })
}

fn run(text: &str, inside: impl Fn(char) -> bool) -> usize {
    text.find(|c| !inside(c)).unwrap_or(text.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$')
}

/// Returns the length of a quoted text, in which a quote is doubled.
fn quoted(text: &str, mark: char) -> usize {
    let mut at = 1;
    while let Some(end) = text[at..].find(mark) {
        at += end + 1;
        if !text[at..].starts_with(mark) {
            return at;
        }
        at += 1;
    }
    text.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const TABLE: &str = "CREATE TABLE \"a,(b\" (\"x\" \"tsql decimal(10,2)\" NOT NULL, \"y)\" \
        \"tsql int\", CONSTRAINT \"p\"\"k\" PRIMARY KEY (\"x\", \"y)\" DESC), CONSTRAINT [u] \
        UNIQUE (\"x\"), CONSTRAINT c CHECK ((\"x\" <> ',' OR '(' = ')')))";

    #[test]
    fn a_text_stays_as_it_is() {
        for sql in [
            TABLE,
            "CREATE TABLE t (a -- one, (\n, b /* ) */, UNIQUE (a)) WITHOUT ROWID, STRICT",
            "CREATE TABLE [a(] (a int default 'it''s (', `b,` TEXT)",
        ] {
            assert_eq!(TableText::parse(sql).unwrap().text(), sql);
        }
        assert_eq!(TableText::parse("CREATE TABLE t (a"), None);
        assert_eq!(TableText::parse("CREATE TABLE t AS SELECT 1"), None);
    }

    #[test]
    fn keys_are_found_by_name() {
        let text = TableText::parse(TABLE).unwrap();
        let keys = text.keys();
        assert_eq!(keys.len(), 2);
        assert_eq!((keys[0].item, keys[0].name.as_deref()), (2, Some("p\"k")));
        assert_eq!(keys[0].columns, "(\"x\", \"y)\" DESC)");
        assert_eq!((keys[1].item, keys[1].name.as_deref()), (3, Some("u")));
        let unnamed = "CREATE TABLE t (a INTEGER PRIMARY KEY, unique /* k */ (a), UNIQUE (a) ON \
            CONFLICT IGNORE)";
        let keys = TableText::parse(unnamed).unwrap().keys();
        assert_eq!(keys, [KeyText { item: 1, name: None, columns: "(a)".to_owned() }]);
    }

    #[test]
    fn a_column_is_found_and_replaced() {
        let mut text = TableText::parse(TABLE).unwrap();
        assert_eq!(text.column("X"), Some(ColumnItem { item: 0, default: None }));
        assert_eq!(text.column("y)"), Some(ColumnItem { item: 1, default: None }));
        assert_eq!(text.column("u"), None);
        text.replace(1, "\"y)\" \"tsql bigint\"");
        assert_eq!(text.text(), TABLE.replace("\"tsql int\"", "\"tsql bigint\""));
        let added =
            "CREATE TABLE t (a, b \"tsql int\" NOT NULL DEFAULT 7, c INT UNIQUE, UNIQUE (a))";
        let text = TableText::parse(added).unwrap();
        let default = Some("DEFAULT 7".to_owned());
        assert_eq!(text.column("b"), Some(ColumnItem { item: 1, default }));
        assert_eq!(text.column("c"), None);
        assert_eq!(text.column("unique"), None);
        let mut text = TableText::parse(TABLE).unwrap();
        assert!(text.rename_constraint("P\"K", "q\"") && !text.rename_constraint("p\"k", "x"));
        assert_eq!(text.text(), TABLE.replace("\"p\"\"k\"", "\"q\"\"\""));
    }

    #[test]
    fn items_come_and_go() {
        let mut text = TableText::parse("CREATE TABLE t (a, b -- last\n) STRICT").unwrap();
        text.add("UNIQUE (a)");
        assert_eq!(text.text(), "CREATE TABLE t (a, b -- last\n, UNIQUE (a)) STRICT");
        text.remove(1);
        assert_eq!(text.text(), "CREATE TABLE t (a, UNIQUE (a)) STRICT");
    }
}
