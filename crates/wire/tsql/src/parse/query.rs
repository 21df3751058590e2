//! SELECT and its parts.

use super::{Parser, is_reserved};
use crate::ast::document::ForJson;
use crate::ast::{
    Cte, Expr, Hints, Item, JoinKind, JsonColumn, Name, Query, Select, SetExpr, SetOp, TableCall,
    TableRef, Top,
};
use crate::error::{Error, Result};
use crate::lex::Tok;
use crate::parse::expr::binary_op;

/// Table-valued functions.
pub(crate) const FUNCTIONS: &[&str] = &[
    "OPENJSON",
    "STRING_SPLIT",
    "fn_helpcollations",
    "fn_listextendedproperty",
    "sys.dm_exec_sql_text",
    "sys.fn_helpcollations",
    "sys.fn_listextendedproperty",
];

/// Returns what a table hint asks for; None for a word that is not a hint. Hints that only name a
/// kind of lock or an access path ask for nothing: committed rows are read without a lock.
fn hint(word: &str) -> Option<Hints> {
    let none = Hints::default();
    Some(match word {
        "NOLOCK" | "READUNCOMMITTED" | "READCOMMITTED" | "ROWLOCK" | "PAGLOCK" => none,
        "FORCESEEK" | "FORCESCAN" => none,
        "UPDLOCK" | "XLOCK" | "TABLOCKX" => Hints { wait: true, hold: true, ..none },
        "HOLDLOCK" | "SERIALIZABLE" | "REPEATABLEREAD" => Hints { hold: true, ..none },
        "TABLOCK" | "READCOMMITTEDLOCK" => Hints { wait: true, ..none },
        "READPAST" => Hints { wait: true, past: true, ..none },
        "NOWAIT" => Hints { nowait: true, ..none },
        _ => return None,
    })
}
/// Query hints of the same kind.
const QUERY_HINTS: &[&str] = &["RECOMPILE", "MAXDOP", "FAST", "KEEPFIXED", "MAXRECURSION"];

/// Maximum number of queries in a row of UNION ALL.
const MAX_UNION: usize = 4000;
/// Up to so many are joined one after the other, more in a tree, which is less deep. The types of
/// columns are then found in the order of the tree.
const MAX_CHAIN: usize = 200;

/// Joins queries by UNION ALL.
fn joined(mut queries: Vec<SetExpr>) -> Option<SetExpr> {
    let join = |left, right| SetExpr::Op(SetOp::UnionAll, Box::new(left), Box::new(right));
    if queries.len() <= MAX_CHAIN {
        return queries.into_iter().reduce(join);
    }
    let right = joined(queries.split_off(queries.len() / 2));
    Some(join(joined(queries)?, right?))
}

impl Parser<'_> {
    /// A query with its WITH and ORDER BY.
    pub(crate) fn query(&mut self) -> Result<Query> {
        let ctes = self.ctes()?;
        self.query_after(ctes)
    }

    pub(crate) fn query_after(&mut self, ctes: Vec<Cte>) -> Result<Query> {
        let line = self.line();
        let body = self.set_expression(0)?;
        let mut query = Query {
            ctes,
            body,
            order: Vec::new(),
            offset: None,
            json: None,
            xml: None,
            max_recursion: None,
            line,
        };
        if self.eat_words(&["ORDER", "BY"]) {
            query.order = self.commas(Self::order_item)?;
            if self.eat("OFFSET") {
                let offset = self.expression()?;
                if !self.eat("ROWS") {
                    self.expect("ROW")?;
                }
                let mut fetch = None;
                if self.eat("FETCH") {
                    if !self.eat("NEXT") {
                        self.expect("FIRST")?;
                    }
                    fetch = Some(self.expression()?);
                    if !self.eat("ROWS") {
                        self.expect("ROW")?;
                    }
                    self.expect("ONLY")?;
                }
                query.offset = Some((offset, fetch));
            }
        }
        if self.eat_words(&["FOR", "JSON"]) {
            query.json = Some(Box::new(self.for_json()?));
        } else if self.eat_words(&["FOR", "XML"]) {
            query.xml = Some(Box::new(self.for_xml()?));
        } else if self.is("FOR") && !self.is_word_at(1, "READ") && !self.is_word_at(1, "UPDATE") {
            // those two belong to a cursor
            return Err(Error::unsupported("FOR"));
        }
        Ok(query)
    }

    fn for_json(&mut self) -> Result<ForJson> {
        let auto = self.eat("AUTO");
        if !auto {
            self.expect("PATH")?;
        }
        let mut json = ForJson { auto, root: None, nulls: false, array: true };
        while self.eat_op(",") {
            if self.eat("ROOT") {
                json.root = Some("root".to_owned());
                if self.eat_op("(") {
                    json.root = Some(self.string()?);
                    self.expect_op(")")?;
                }
            } else if self.eat("INCLUDE_NULL_VALUES") {
                json.nulls = true;
            } else {
                self.expect("WITHOUT_ARRAY_WRAPPER")?;
                json.array = false;
            }
        }
        if json.root.is_some() && !json.array {
            return Err(Error::JsonRootBare {});
        }
        Ok(json)
    }

    /// WITH of OPENJSON.
    fn json_schema(&mut self) -> Result<Vec<JsonColumn>> {
        if !(self.is("WITH") && self.is_op_at(1, "(")) {
            return Ok(Vec::new());
        }
        self.advance();
        self.list(|parser| {
            let name = parser.identifier()?;
            let ty = parser.data_type()?;
            let path = match parser.tok() {
                Tok::Str(..) => Some(parser.string()?),
                _ => None,
            };
            let json = parser.eat_words(&["AS", "JSON"]);
            Ok(JsonColumn { name, ty, path, json })
        })
    }

    /// `OPTION (..)` at the end of a statement.
    pub(crate) fn query_hints(&mut self) -> Result<Option<i64>> {
        let mut max_recursion = None;
        if !self.eat("OPTION") {
            return Ok(max_recursion);
        }
        self.list(|parser| {
            let hint = parser.word()?;
            if !QUERY_HINTS.contains(&hint.as_str()) {
                return Err(Error::unsupported(format!("OPTION ({hint})")));
            }
            if hint == "MAXRECURSION" {
                max_recursion = Some(parser.integer()?);
                return Ok(());
            }
            if matches!(parser.tok(), Tok::Int(_)) {
                parser.integer()?;
            }
            if hint == "KEEPFIXED" {
                parser.expect("PLAN")?;
            }
            Ok(())
        })?;
        match max_recursion {
            Some(most) if !(0..=32_767).contains(&most) => {
                Err(Error::Syntax { near: most.to_string() })
            }
            most => Ok(most),
        }
    }

    pub(crate) fn ctes(&mut self) -> Result<Vec<Cte>> {
        if !self.eat("WITH") {
            return Ok(Vec::new());
        }
        self.commas(|parser| {
            let name = parser.identifier()?;
            let columns =
                if parser.is_op("(") { parser.list(Self::identifier)? } else { Vec::new() };
            parser.expect("AS")?;
            parser.expect_op("(")?;
            let query = parser.nested(Self::query)?;
            parser.expect_op(")")?;
            Ok(Cte { name, columns, query })
        })
    }

    /// INTERSECT binds tighter than UNION and EXCEPT.
    fn set_expression(&mut self, level: u8) -> Result<SetExpr> {
        if level == 2 {
            if self.eat_op("(") {
                let query = self.nested(Self::query)?;
                self.expect_op(")")?;
                return Ok(SetExpr::Nested(Box::new(query)));
            }
            return Ok(SetExpr::Select(Box::new(self.select()?)));
        }
        // the operands of UNION ALL so far: of the others, the first is their result
        let mut all = vec![self.set_expression(level + 1)?];
        let mut count = 0;
        loop {
            let op = if level == 1 && self.is("INTERSECT") {
                SetOp::Intersect
            } else if level == 0 && self.is("UNION") {
                if self.is_word_at(1, "ALL") { SetOp::UnionAll } else { SetOp::Union }
            } else if level == 0 && self.is("EXCEPT") {
                SetOp::Except
            } else {
                return joined(all).ok_or_else(|| self.unexpected());
            };
            self.advance();
            if op == SetOp::UnionAll {
                self.advance();
                all.push(self.set_expression(level + 1)?);
                if all.len() > MAX_UNION {
                    return Err(Error::NestedTooDeep {});
                }
                continue;
            }
            count += 1;
            if count > super::MAX_HEIGHT {
                return Err(Error::NestedTooDeep {});
            }
            let right = self.set_expression(level + 1)?;
            if let Some(left) = joined(std::mem::take(&mut all)) {
                all.push(SetExpr::Op(op, Box::new(left), Box::new(right)));
            }
        }
    }

    fn select(&mut self) -> Result<Select> {
        self.expect("SELECT")?;
        let distinct = self.eat("DISTINCT");
        if !distinct {
            self.eat("ALL");
        }
        let top = self.top()?;
        let items = self.commas(Self::item)?;
        let into = if self.eat("INTO") { Some(self.name()?) } else { None };
        let from = if self.eat("FROM") { self.commas(Self::table_ref)? } else { Vec::new() };
        let filter = if self.eat("WHERE") { Some(self.condition()?) } else { None };
        let (group, sets) = match self.eat_words(&["GROUP", "BY"]) {
            true => self.group_by()?,
            false => Default::default(),
        };
        let having = if self.eat("HAVING") { Some(self.condition()?) } else { None };
        Ok(Select { distinct, top, items, into, from, filter, group, sets, having })
    }

    pub(crate) fn top(&mut self) -> Result<Option<Top>> {
        if !self.eat("TOP") {
            return Ok(None);
        }
        let count = if self.eat_op("(") {
            let count = self.expression()?;
            self.expect_op(")")?;
            count
        } else {
            let literal = match self.tok() {
                Tok::Int(text) => Expr::Int(text.clone()),
                Tok::Dec(text) => Expr::Dec(text.clone()),
                Tok::Var(name) => Expr::Var(name.clone()),
                _ => return Err(self.unexpected()),
            };
            self.advance();
            literal
        };
        let percent = self.eat("PERCENT");
        let ties = self.eat_words(&["WITH", "TIES"]);
        Ok(Some(Top { count, percent, ties }))
    }

    /// One item of a select list or an OUTPUT clause.
    pub(crate) fn item(&mut self) -> Result<Item> {
        if self.eat_op("*") {
            return Ok(Item::Star(None));
        }
        // `t.*`
        let mark = self.at;
        if self.is_identifier()
            && let Ok(mut name) = self.name_before_star()
        {
            name.0.retain(|part| !part.is_empty());
            return Ok(Item::Star(Some(name)));
        }
        self.at = mark;
        if let (Tok::Var(name), Tok::Op(op)) = (self.tok().clone(), self.ahead(1).clone()) {
            if op == "=" {
                self.advance();
                self.advance();
                return Ok(Item::Assign(name, None, self.expression()?));
            }
            if op.len() == 2 && op.ends_with('=') && binary_op(op).is_some() {
                self.advance();
                self.advance();
                return Ok(Item::Assign(name, binary_op(op), self.expression()?));
            }
        }
        // `alias = expression`
        let string_alias = matches!(self.tok(), Tok::Str(..));
        if (self.is_identifier() || string_alias) && self.is_op_at(1, "=") {
            let alias = self.alias_name()?;
            self.advance();
            return Ok(Item::Expr(self.expression()?, Some(alias)));
        }
        let expr = self.expression()?;
        let named = self.eat("AS");
        let alias = if named || self.is_identifier() || matches!(self.tok(), Tok::Str(..)) {
            Some(self.alias_name()?)
        } else {
            None
        };
        Ok(Item::Expr(expr, alias))
    }

    fn name_before_star(&mut self) -> Result<crate::ast::Name> {
        let mut parts = vec![self.identifier()?];
        while self.eat_op(".") {
            if self.eat_op("*") {
                return Ok(crate::ast::Name(parts));
            }
            parts.push(if self.is_op(".") { String::new() } else { self.identifier()? });
        }
        Err(self.unexpected())
    }

    fn alias_name(&mut self) -> Result<String> {
        match self.tok() {
            Tok::Str(..) => self.string(),
            _ => self.identifier(),
        }
    }

    /// A table, or tables joined.
    pub(crate) fn table_ref(&mut self) -> Result<TableRef> {
        self.nested(|parser| {
            let left = parser.table_factor()?;
            let mut left = parser.pivoted(left)?;
            let mut count = 0;
            while let Some(kind) = parser.join_kind()? {
                count += 1;
                if count > super::MAX_HEIGHT {
                    return Err(Error::NestedTooDeep {});
                }
                let apply = matches!(kind, JoinKind::CrossApply | JoinKind::OuterApply);
                if apply || kind == JoinKind::Cross {
                    let right = parser.table_factor()?;
                    if apply && matches!(right, TableRef::Join(..)) {
                        return Err(Error::unsupported("APPLY of a join"));
                    }
                    left = TableRef::Join(kind, Box::new(left), Box::new(right), None);
                } else {
                    // `a JOIN b JOIN c ON .. ON ..` nests to the right
                    let right = if parser.join_follows_on() {
                        let right = parser.table_factor()?;
                        parser.pivoted(right)?
                    } else {
                        parser.table_ref()?
                    };
                    parser.expect("ON")?;
                    let on = parser.condition()?;
                    left = TableRef::Join(kind, Box::new(left), Box::new(right), Some(on));
                }
                left = parser.pivoted(left)?;
            }
            Ok(left)
        })
    }

    /// Returns true if the next join's ON comes before another JOIN: looks ahead at this level.
    fn join_follows_on(&self) -> bool {
        let mut depth = 0_usize;
        for token in &self.tokens[self.at..] {
            match &token.tok {
                Tok::Op("(") => depth += 1,
                Tok::Op(")") if depth == 0 => return true,
                Tok::Op(")") => depth -= 1,
                Tok::Word(word) if depth == 0 && word.eq_ignore_ascii_case("ON") => return true,
                Tok::Word(word) if depth == 0 && word.eq_ignore_ascii_case("JOIN") => return false,
                Tok::End => return true,
                _ => {}
            }
        }
        true
    }

    fn join_kind(&mut self) -> Result<Option<JoinKind>> {
        if self.is("CROSS") || self.is("OUTER") {
            if self.eat_words(&["CROSS", "APPLY"]) {
                return Ok(Some(JoinKind::CrossApply));
            }
            if self.eat_words(&["OUTER", "APPLY"]) {
                return Ok(Some(JoinKind::OuterApply));
            }
            if self.eat_words(&["CROSS", "JOIN"]) {
                return Ok(Some(JoinKind::Cross));
            }
            return Err(self.unexpected());
        }
        let kind = match () {
            () if self.is("JOIN") => JoinKind::Inner,
            () if self.eat("INNER") => JoinKind::Inner,
            () if self.is("LEFT") || self.is("RIGHT") || self.is("FULL") => {
                let kind = match self.word()?.as_str() {
                    "LEFT" => JoinKind::Left,
                    "RIGHT" => JoinKind::Right,
                    _ => JoinKind::Full,
                };
                self.eat("OUTER");
                kind
            }
            () if self.is("TABLESAMPLE") => {
                return Err(Error::unsupported(self.word()?));
            }
            () => return Ok(None),
        };
        if self.is("LOOP") || self.is("HASH") || self.is("MERGE") {
            self.advance();
        }
        self.expect("JOIN")?;
        Ok(Some(kind))
    }

    fn table_factor(&mut self) -> Result<TableRef> {
        if self.eat_op("(") {
            return self.nested(Self::parenthesised_table);
        }
        if matches!(self.tok(), Tok::Var(_)) {
            let name = self.variable()?;
            let alias = self.table_alias()?;
            return Ok(TableRef::Table(Name(vec![name]), alias, Hints::default()));
        }
        if let Tok::Word(word) = self.tok()
            && is_reserved(word)
            && self.is_op_at(1, "(")
        {
            return Err(Error::unsupported(word.to_ascii_uppercase()));
        }
        let name = self.name()?;
        let mut hints = Hints::default();
        if self.is_op("(") {
            // the old syntax of hints: FROM t (NOLOCK)
            if let Tok::Word(word) = self.ahead(1)
                && hint(&word.to_ascii_uppercase()).is_some()
            {
                hints = self.hint_list()?;
            } else {
                return self.table_function(name);
            }
        }
        let alias = self.table_alias()?;
        if self.is("WITH") && self.is_op_at(1, "(") {
            self.advance();
            hints = self.hint_list()?;
        } else if self.is_op("(") {
            hints = self.hint_list()?;
        }
        Ok(TableRef::Table(name, alias, hints))
    }

    fn table_function(&mut self, name: Name) -> Result<TableRef> {
        const OF_DATABASE: &str = "sys.fn_listextendedproperty";
        let database = name.part(2).map(str::to_owned);
        let parts = [name.part(1), Some(name.object())];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(".");
        let listed = FUNCTIONS.iter().any(|own| own.eq_ignore_ascii_case(&text));
        if !listed || database.is_some() && !text.eq_ignore_ascii_case(OF_DATABASE) {
            return self.function_call(name);
        }
        let function = name.object().to_ascii_uppercase();
        let defaults = function == "FN_LISTEXTENDEDPROPERTY";
        let bare = function == "FN_HELPCOLLATIONS";
        let args = if bare {
            self.expect_op("(")?;
            self.expect_op(")")?;
            Vec::new()
        } else {
            self.list(|parser| match defaults && parser.eat("DEFAULT") {
                true => Ok(Expr::Null),
                false => parser.expression(),
            })?
        };
        let schema = if function == "OPENJSON" { self.json_schema()? } else { Vec::new() };
        let alias = self.table_alias()?;
        let named = alias.is_some() && self.is_op("(");
        let columns = if named { self.list(Self::identifier)? } else { Vec::new() };
        let alias = alias.unwrap_or_else(|| name.object().to_owned());
        Ok(TableRef::Function(TableCall { function, database, args, schema, alias, columns }))
    }

    pub(crate) fn hint_list(&mut self) -> Result<Hints> {
        let found = self.list(|parser| {
            let word = parser.word()?;
            hint(&word).ok_or_else(|| Error::unsupported(word))
        })?;
        Ok(found.into_iter().fold(Hints::default(), Hints::and))
    }

    fn parenthesised_table(&mut self) -> Result<TableRef> {
        if self.eat("VALUES") {
            let rows = self.rows(Self::expression)?;
            self.expect_op(")")?;
            let (alias, columns) = self.derived_alias()?;
            if rows.iter().any(|row| row.len() != columns.len()) {
                return Err(Error::TooFewColumnNames { of: alias });
            }
            return Ok(TableRef::Values(rows, alias, columns));
        }
        if self.is("SELECT") || self.is("WITH") || self.parenthesised_query() {
            let query = self.query()?;
            self.expect_op(")")?;
            let (alias, columns) = self.derived_alias()?;
            return Ok(TableRef::Derived(Box::new(query), alias, columns));
        }
        let table = self.table_ref()?;
        self.expect_op(")")?;
        Ok(table)
    }

    /// Returns true if a parenthesis begins a query, as in `((SELECT ..) UNION ..) AS x`, and not a
    /// join: the token after its end decides. Nothing is parsed twice.
    fn parenthesised_query(&self) -> bool {
        let mut at = 0;
        while self.is_op_at(at, "(") {
            at += 1;
        }
        if at == 0 || !(self.is_word_at(at, "SELECT") || self.is_word_at(at, "WITH")) {
            return false;
        }
        let (mut depth, mut at) = (1_u32, 1);
        while depth > 0 {
            match self.ahead(at) {
                Tok::Op("(") => depth += 1,
                Tok::Op(")") => depth -= 1,
                Tok::End => return true,
                _ => {}
            }
            at += 1;
        }
        let sets = ["UNION", "EXCEPT", "INTERSECT", "ORDER"];
        self.is_op_at(at, ")") || sets.iter().any(|word| self.is_word_at(at, word))
    }

    fn derived_alias(&mut self) -> Result<(String, Vec<String>)> {
        self.eat("AS");
        let alias = self.identifier()?;
        let columns = if self.is_op("(") { self.list(Self::identifier)? } else { Vec::new() };
        Ok((alias, columns))
    }

    pub(super) fn table_alias(&mut self) -> Result<Option<String>> {
        if self.eat("AS") {
            return self.identifier().map(Some);
        }
        // OPTION, OFFSET and OUTPUT begin the clause after a table
        let follows = ["OFFSET", "OUTPUT", "LOOP", "HASH", "APPLY"];
        if self.is_identifier() && !follows.iter().any(|word| self.is(word)) {
            return self.identifier().map(Some);
        }
        Ok(None)
    }
}
