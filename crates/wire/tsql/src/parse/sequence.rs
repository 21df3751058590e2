//! CREATE SEQUENCE and ALTER SEQUENCE, and the places where NEXT VALUE FOR may stand.

use super::Parser;
use crate::ast::{Action, Child, Expr, Item, Kind, Query, SequenceOptions, SetExpr, Source};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// Functions whose arguments may not be evaluated for each row.
const CHOOSING: [&str; 5] = ["CHOOSE", "COALESCE", "IIF", "ISNULL", "NULLIF"];

impl Parser<'_> {
    /// The rest of CREATE SEQUENCE or ALTER SEQUENCE.
    pub(super) fn sequence(&mut self, create: bool) -> Result<Kind> {
        let name = self.name()?;
        let mut options = SequenceOptions::default();
        if self.is("AS") {
            if !create {
                return Err(Error::SequenceAs {});
            }
            self.advance();
            options.ty = Some(self.data_type()?);
        }
        let mut known: Vec<&'static str> = Vec::new();
        while let Some(option) = self.sequence_option(create, &mut options)? {
            if known.contains(&option) {
                return Err(Error::SequenceTwice { argument: option });
            }
            known.push(option);
        }
        if !create && known.is_empty() {
            return Err(Error::SequenceNothing {});
        }
        Ok(Kind::Act(Action::Sequence { name, options: Box::new(options), create }))
    }

    fn sequence_option(
        &mut self,
        create: bool,
        options: &mut SequenceOptions,
    ) -> Result<Option<&'static str>> {
        let no = self.is("NO") && self.eat("NO");
        let Tok::Word(word) = self.tok() else {
            return if no { Err(self.unexpected()) } else { Ok(None) };
        };
        let option = match word.to_ascii_uppercase().as_str() {
            "START" if !no => {
                self.advance();
                self.expect("WITH")?;
                if !create {
                    return Err(Error::SequenceStart {});
                }
                options.start = Some(self.integer()?);
                "START WITH"
            }
            "RESTART" if !no => {
                if create {
                    return Err(Error::SequenceRestart {});
                }
                self.advance();
                let with = if self.eat("WITH") { Some(self.integer()?) } else { None };
                options.restart = Some(with);
                "RESTART WITH"
            }
            "INCREMENT" if !no => {
                self.advance();
                self.expect("BY")?;
                options.increment = Some(self.integer()?);
                "INCREMENT BY"
            }
            "MINVALUE" => {
                self.advance();
                options.minimum = Some(if no { None } else { Some(self.integer()?) });
                "MINVALUE"
            }
            "MAXVALUE" => {
                self.advance();
                options.maximum = Some(if no { None } else { Some(self.integer()?) });
                "MAXVALUE"
            }
            "CYCLE" => {
                self.advance();
                options.cycle = Some(!no);
                "CYCLE"
            }
            "CACHE" => {
                self.advance();
                let sized = !no && matches!(self.tok(), Tok::Int(_) | Tok::Op("-"));
                let size = if sized { Some(self.integer()?) } else { None };
                options.cache = Some((!no, size));
                "CACHE"
            }
            _ if no => return Err(self.unexpected()),
            _ => return Ok(None),
        };
        Ok(Some(option))
    }

    /// NEXT VALUE FOR, at its first word.
    pub(super) fn next_value(&mut self) -> Result<Expr> {
        self.expect_words(&["NEXT", "VALUE", "FOR"])?;
        let name = self.name()?;
        if self.is("OVER") {
            return Err(Error::unsupported("NEXT VALUE FOR .. OVER"));
        }
        self.next_values = true;
        self.height = 1;
        Ok(Expr::Next(name, 0))
    }
}

/// Numbers the places of a statement that take values of sequences: those of one row differ.
///
/// # Errors
/// If one stands where the number of its rows is not known.
pub(super) fn number(kind: &mut Kind) -> Result<()> {
    let mut place = 0;
    match kind {
        Kind::Query(query) => number_query(query, &mut place),
        Kind::Insert(insert) => {
            refuse_items(&insert.output)?;
            if insert.ctes.iter().any(|cte| in_query(&cte.query)) {
                return Err(Error::NextHere {});
            }
            match &mut insert.source {
                Source::Values(rows) => {
                    for row in rows {
                        place = 0;
                        for value in row.iter_mut().flatten() {
                            number_in(value, &mut place)?;
                        }
                    }
                    Ok(())
                }
                Source::Query(query) => number_query(query, &mut place),
                Source::Defaults | Source::Exec(_) => Err(Error::NextContext {}),
            }
        }
        Kind::Update(update) => {
            refuse_items(&update.output)?;
            if update.filter.as_ref().is_some_and(in_expr)
                || update.top.as_ref().is_some_and(|top| in_expr(&top.count))
            {
                return Err(Error::NextClause {});
            }
            for (_, _, value) in &mut update.sets {
                let Some(value) = value else { continue };
                number_in(value, &mut place)?;
            }
            let mut inside = false;
            for table in &update.from {
                table.children(&mut |child| inside |= in_child(child));
            }
            match inside || update.ctes.iter().any(|cte| in_query(&cte.query)) {
                true => Err(Error::NextHere {}),
                false => Ok(()),
            }
        }
        Kind::Set(_, _, value) => number_in(value, &mut place),
        Kind::Declare(variables) => {
            variables.iter_mut().filter_map(|(.., value)| value.as_mut()).try_for_each(|value| {
                place = 0;
                number_in(value, &mut place)
            })
        }
        Kind::Delete(_) => Err(Error::NextClause {}),
        Kind::Merge(_) => Err(Error::NextMerge {}),
        Kind::Act(Action::CreateView { .. }) | Kind::Return(_) => Err(Error::NextHere {}),
        _ => Err(Error::NextContext {}),
    }
}

fn refuse_items(items: &[Item]) -> Result<()> {
    let inside = |item: &Item| match item {
        Item::Star(_) => false,
        Item::Expr(expr, _) | Item::Assign(_, _, expr) => in_expr(expr),
    };
    if items.iter().any(inside) { Err(Error::NextClause {}) } else { Ok(()) }
}

fn number_query(query: &mut Query, place: &mut usize) -> Result<()> {
    if query.order.iter().any(|item| in_expr(&item.expr)) {
        return Err(Error::NextClause {});
    }
    let ordered = !query.order.is_empty();
    let limited = query.offset.is_some();
    let ctes = query.ctes.iter().any(|cte| in_query(&cte.query));
    let select = match &mut query.body {
        SetExpr::Select(select) => select,
        SetExpr::Op(..) => return Err(Error::NextSet {}),
        SetExpr::Nested(_) => return Err(Error::NextHere {}),
    };
    let clauses = select.filter.iter().chain(&select.group).chain(&select.having);
    if clauses.into_iter().any(in_expr) || select.top.iter().any(|top| in_expr(&top.count)) {
        return Err(Error::NextClause {});
    }
    let mut tables = false;
    for table in &select.from {
        table.children(&mut |child| tables |= in_child(child));
    }
    if ctes || tables {
        return Err(Error::NextHere {});
    }
    let mut names = Vec::new();
    for item in &mut select.items {
        match item {
            Item::Star(_) => {}
            Item::Expr(expr, _) => number_in(expr, place)?,
            Item::Assign(_, _, expr) => {
                number_in(expr, place)?;
                expr.each(&mut |part| {
                    if let Expr::Next(name, _) = part {
                        names.push(name.text().to_lowercase());
                    }
                });
            }
        }
    }
    let count = names.len();
    names.sort();
    names.dedup();
    if names.len() < count {
        return Err(Error::NextVariables {});
    }
    match () {
        () if select.distinct => Err(Error::NextSet {}),
        () if ordered => Err(Error::NextOrder {}),
        () if limited || select.top.is_some() => Err(Error::NextLimit {}),
        () if !select.group.is_empty() || select.having.is_some() => Err(Error::NextContext {}),
        () => Ok(()),
    }
}

/// Numbers the places in an expression that is evaluated once for each row.
fn number_in(expr: &mut Expr, place: &mut usize) -> Result<()> {
    if let Expr::Next(_, number) = expr {
        *number = *place;
        *place += 1;
        return Ok(());
    }
    let refused = match expr {
        Expr::Case(..) => Some(Error::NextChoice {}),
        Expr::Call(call) => {
            let name = call.name.object().to_ascii_uppercase();
            CHOOSING.contains(&name.as_str()).then_some(Error::NextChoice {})
        }
        _ => None,
    };
    if let Some(error) = refused {
        return if in_expr(expr) { Err(error) } else { Ok(()) };
    }
    if expr.query().is_some_and(in_query) {
        return Err(Error::NextHere {});
    }
    let mut result = Ok(());
    expr.children_mut(&mut |part| {
        if result.is_ok() {
            result = number_in(part, place);
        }
    });
    result
}

/// Returns true if an expression, or a query in it, takes a value of a sequence.
pub(super) fn in_expr(expr: &Expr) -> bool {
    expr.any(&|part| matches!(part, Expr::Next(..)) || part.query().is_some_and(in_query))
}

fn in_query(query: &Query) -> bool {
    let mut found = false;
    query.children(&mut |child| found |= in_child(child));
    found
}

fn in_child(child: Child<'_>) -> bool {
    match child {
        Child::Expr(expr) => in_expr(expr),
        Child::Query(query) => in_query(query),
        Child::Table(_) => false,
    }
}
