//! The names in scope: the tables of each SELECT around, and common table expressions.
//!
//! Only the methods of [`Binder`] here bring a name into scope. Each binds something with it, and
//! leaves the names as they were, whatever comes of that.

use super::later::Computed;
use super::{Binder, Offered, SourceScope};
use crate::ast::{Expr, Name, TableRef};
use crate::error::{Error, Result};
use crate::plan::scalar::Scalar;
use crate::plan::{Alias, ColumnRef};

/// Where aggregates are allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Aggregates {
    Forbidden,
    Allowed,
    Inside,
}

/// Expressions of GROUP BY: in the form of [`Names::canonical`], and as they are used.
pub(super) type Groups = Vec<(Expr, Scalar)>;

/// The names in the scope of one SELECT.
#[derive(Debug)]
pub(crate) struct Scope {
    sources: Vec<SourceScope>,
    /// Number of leading sources that are not visible: inside of a join's ON.
    hidden: usize,
    aggregates: Aggregates,
    /// Columns outside of aggregates must be among these.
    groups: Option<Groups>,
    /// Of a member of a recursive expression: the source that is the expression itself.
    recursion: Option<Alias>,
    /// True once one of the columns was named; None if nobody asks.
    watched: Option<bool>,
}

impl Scope {
    pub(crate) fn new() -> Scope {
        Scope::of(Vec::new())
    }

    /// The scope of these tables.
    pub(crate) fn of(sources: Vec<SourceScope>) -> Scope {
        Scope {
            sources,
            hidden: 0,
            aggregates: Aggregates::Forbidden,
            groups: None,
            recursion: None,
            watched: None,
        }
    }

    /// Returns the column of this name.
    fn find(&self, name: &Name) -> Result<Option<Offered>> {
        let mut found: Option<Offered> = None;
        for source in self.sources.iter().skip(self.hidden) {
            if !qualifies(source, name) {
                continue;
            }
            for column in &source.columns {
                if !column.name.eq_ignore_ascii_case(name.object()) {
                    continue;
                }
                if found.is_some() {
                    return Err(Error::AmbiguousColumn { name: name.text() });
                }
                found = Some(column.clone());
            }
        }
        Ok(found)
    }

    /// Returns true if GROUP BY lacks a column. A key under COLLATE is not its column: rows of one
    /// group may differ in it.
    fn lacks(&self, column: &ColumnRef) -> bool {
        let is = |(key, bound): &(Expr, Scalar)| {
            !matches!(key, Expr::Collate(..)) && bound.as_column() == Some(column)
        };
        self.groups.as_ref().is_some_and(|all| !all.iter().any(is))
    }
}

fn qualifies(source: &SourceScope, name: &Name) -> bool {
    let Some(qualifier) = name.part(1) else { return name.0.len() == 1 };
    if source.alias.eq_ignore_ascii_case(qualifier) {
        let schema = name.part(2);
        return match (&source.full, schema) {
            (_, None) => true,
            (Some(full), Some(schema)) => {
                full.part(1).unwrap_or("dbo").eq_ignore_ascii_case(schema)
            }
            (None, Some(_)) => false,
        };
    }
    false
}

/// A common table expression in scope.
#[derive(Debug, Clone)]
pub(super) struct CteScope {
    pub(super) name: String,
    pub(super) id: Alias,
    /// Without a source.
    pub(super) columns: Vec<Offered>,
    /// References inside of its own definition count the recursion depth.
    pub(super) recursive: bool,
}

/// The names in scope, and the number of aliases given.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// The innermost last.
    scopes: Vec<Scope>,
    ctes: Vec<CteScope>,
    given: usize,
}

impl Names {
    /// Returns an alias of this kind that is not in use.
    pub(super) fn fresh(&mut self, kind: fn(usize) -> Alias) -> Alias {
        self.given += 1;
        kind(self.given)
    }

    /// Adds a table to the innermost SELECT.
    pub(super) fn add_source(&mut self, source: SourceScope) -> Result<()> {
        let Some(scope) = self.scopes.last_mut() else { return Ok(()) };
        let twice = scope.sources.iter().any(|known| {
            known.alias.eq_ignore_ascii_case(&source.alias)
                && known.full.as_ref().map(Name::text) == source.full.as_ref().map(Name::text)
        });
        if twice {
            return Err(Error::CorrelationTwice { name: source.alias });
        }
        scope.sources.push(source);
        Ok(())
    }

    /// The tables of the innermost SELECT.
    pub(super) fn sources(&self) -> &[SourceScope] {
        self.scopes.last().map_or(&[][..], |scope| &scope.sources)
    }

    /// Lets the columns of tables of the innermost SELECT be NULL.
    pub(super) fn make_nullable(&mut self, from: usize, to: usize) {
        let Some(scope) = self.scopes.last_mut() else { return };
        let to = to.min(scope.sources.len());
        for source in &mut scope.sources[from..to] {
            let id = source.id;
            source.columns.iter_mut().for_each(|column| {
                column.nullable = true;
                if let Some(value) = &mut column.value {
                    value.or_null(id);
                }
            });
        }
    }

    /// Gives a column of the table that was added last its value.
    pub(super) fn set_value(&mut self, at: usize, value: Computed) {
        let source = self.scopes.last_mut().and_then(|scope| scope.sources.last_mut());
        if let Some(offered) = source.and_then(|source| source.columns.get_mut(at)) {
            if let Computed::Bound(value) = &value {
                offered.nullable = value.nullable;
            }
            offered.value = Some(value);
        }
    }

    /// Allows aggregates from here on, in a SELECT with these groups.
    pub(super) fn group(&mut self, groups: Option<Groups>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.aggregates = Aggregates::Allowed;
            scope.groups = groups;
        }
    }

    /// Where the innermost SELECT allows aggregates.
    pub(super) fn aggregates(&self) -> Aggregates {
        self.scopes.last().map_or(Aggregates::Forbidden, |scope| scope.aggregates)
    }

    /// Returns true outside of all SELECTs.
    pub(super) fn is_outside(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns true within APPLY.
    pub(super) fn is_watched(&self) -> bool {
        self.scopes.iter().any(|scope| scope.watched.is_some())
    }

    /// Notes which table of the innermost SELECT is the recursive expression of which it is a
    /// member.
    pub(super) fn recur(&mut self, source: Alias) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.recursion = Some(source);
        }
    }

    /// Returns that table.
    pub(super) fn recursion(&self) -> Option<Alias> {
        self.scopes.last()?.recursion
    }

    /// Adds a common table expression.
    pub(super) fn add_common(&mut self, common: CteScope) {
        self.ctes.push(common);
    }

    /// Returns the common table expression of this name.
    pub(super) fn common(&self, name: &str) -> Option<&CteScope> {
        self.ctes.iter().rev().find(|known| known.name.eq_ignore_ascii_case(name))
    }

    /// The column of this name, in the innermost SELECT that has one.
    pub(super) fn column(&mut self, name: &Name) -> Result<Offered> {
        for scope in self.scopes.iter_mut().rev() {
            let Some(offered) = scope.find(name)? else { continue };
            scope.watched = scope.watched.map(|_| true);
            if scope.aggregates != Aggregates::Inside && scope.lacks(&offered.column) {
                return Err(Error::NotGrouped { name: name.text() });
            }
            return Ok(offered);
        }
        if name.0.len() > 1 {
            return Err(Error::MultiPart { name: name.text() });
        }
        Err(Error::InvalidColumn { name: name.text() })
    }

    /// The column of this name in the innermost SELECT.
    pub(super) fn own_column(&self, name: &Name) -> Result<Option<Offered>> {
        self.scopes.last().map_or(Ok(None), |scope| scope.find(name))
    }

    /// The columns of `*`, or those of one table.
    pub(super) fn star(&self, qualifier: Option<&Name>) -> Result<Vec<&Offered>> {
        let scope = self.scopes.last().filter(|scope| !scope.sources.is_empty());
        let scope = scope.ok_or(Error::SelectStarNoFrom {})?;
        let mut found = false;
        let mut columns = Vec::new();
        for source in &scope.sources {
            if qualifier.is_some_and(|name| !source.alias.eq_ignore_ascii_case(name.object())) {
                continue;
            }
            found = true;
            for column in &source.columns {
                if scope.lacks(&column.column) {
                    let name = format!("{}.{}", source.alias, column.name);
                    return Err(Error::NotGrouped { name });
                }
                columns.push(column);
            }
        }
        if !found {
            let name = qualifier.map_or_else(String::new, Name::text);
            return Err(Error::MultiPart { name });
        }
        Ok(columns)
    }

    /// The table of FROM that a name or alias stands for.
    pub(super) fn alias_of(&self, shown: &str) -> Option<Alias> {
        let named = |source: &&SourceScope| source.alias.eq_ignore_ascii_case(shown);
        self.sources().iter().filter(named).find_map(|source| source.id)
    }

    /// Returns the matching key of GROUP BY, regardless of case.
    #[inline(never)]
    pub(super) fn grouped(&self, expr: &Expr) -> Option<Scalar> {
        let scope = self.scopes.last()?;
        if scope.aggregates == Aggregates::Inside {
            return None;
        }
        let groups = scope.groups.as_ref().filter(|groups| !groups.is_empty())?;
        let kind = std::mem::discriminant(expr);
        if !groups.iter().any(|(group, _)| std::mem::discriminant(group) == kind) {
            return None;
        }
        let wanted = self.canonical(expr);
        groups.iter().find(|(group, _)| *group == wanted).map(|(_, bound)| bound.clone())
    }

    /// Returns the canonical form of an expression, independent of how its names are written:
    /// functions and variables in lower case, columns by their table.
    pub(super) fn canonical(&self, expr: &Expr) -> Expr {
        let mut made = expr.clone();
        made.each(&mut |part| match part {
            Expr::Var(name) => *name = name.to_lowercase(),
            Expr::Column(name) => match self.own_column(name).ok().flatten() {
                Some(found) => *name = identity(&found.column),
                None => name.0.iter_mut().for_each(|part| *part = part.to_lowercase()),
            },
            Expr::Call(call) => {
                call.name.0.iter_mut().for_each(|part| *part = part.to_lowercase());
            }
            Expr::Collate(_, name) => *name = name.to_lowercase(),
            _ => {}
        });
        made
    }
}

/// A name that no other column has.
fn identity(column: &ColumnRef) -> Name {
    Name(vec![format!("{:?}", column.source), format!("{:?}", column.field)])
}

impl Binder<'_> {
    /// Binds with the tables of one more SELECT in scope.
    pub(crate) fn in_scope<T>(&mut self, scope: Scope, work: impl FnOnce(&mut Self) -> T) -> T {
        self.names.scopes.push(scope);
        let made = work(self);
        self.names.scopes.pop();
        made
    }

    /// Binds with no table in scope.
    pub(super) fn outside<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let scopes = std::mem::take(&mut self.names.scopes);
        let made = work(self);
        self.names.scopes = scopes;
        made
    }

    /// Binds with no tables in scope but these.
    pub(super) fn only_in<T>(&mut self, scope: Scope, work: impl FnOnce(&mut Self) -> T) -> T {
        self.outside(|binder| binder.in_scope(scope, work))
    }

    /// Binds with no name in scope.
    pub(super) fn apart<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let ctes = std::mem::take(&mut self.names.ctes);
        let made = self.outside(work);
        self.names.ctes = ctes;
        made
    }

    /// Binds a part of FROM with the tables beside it out of scope.
    pub(super) fn beside<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let scope = self.names.scopes.pop();
        let made = work(self);
        self.names.scopes.extend(scope);
        made
    }

    /// Binds common table expressions and the statement behind them, in which they are in scope.
    pub(super) fn with_commons<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let known = self.names.ctes.len();
        let made = work(self);
        self.names.ctes.truncate(known);
        made
    }

    /// Binds with so many leading tables of the innermost SELECT out of scope.
    pub(super) fn hiding<T>(&mut self, first: usize, work: impl FnOnce(&mut Self) -> T) -> T {
        let hide = |binder: &mut Self, count| match binder.names.scopes.last_mut() {
            Some(scope) => std::mem::replace(&mut scope.hidden, count),
            None => 0,
        };
        let before = hide(self, first);
        let made = work(self);
        hide(self, before);
        made
    }

    /// Binds with only these tables of the innermost SELECT in scope.
    pub(super) fn showing<T>(
        &mut self,
        shown: impl Fn(&SourceScope) -> bool,
        work: impl FnOnce(&mut Self) -> T,
    ) -> T {
        let swap = |binder: &mut Self, sources| match binder.names.scopes.last_mut() {
            Some(scope) => std::mem::replace(&mut scope.sources, sources),
            None => Vec::new(),
        };
        let seen = self.names.sources().iter().filter(|source| shown(source)).cloned().collect();
        let all = swap(self, seen);
        let made = work(self);
        swap(self, all);
        made
    }

    /// Binds what sees the tables of the innermost SELECT from position `first` on, and says
    /// whether it names a column of theirs.
    pub(super) fn watching<T>(
        &mut self,
        first: usize,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(T, bool)> {
        let watch = |binder: &mut Self, watched| {
            let scope = binder.names.scopes.last_mut();
            scope.and_then(|scope| std::mem::replace(&mut scope.watched, watched))
        };
        let before = watch(self, Some(false));
        let made = self.hiding(first, work);
        let met = watch(self, before) == Some(true);
        if met && before.is_some() {
            watch(self, Some(true));
        }
        Ok((made?, met))
    }

    /// Binds the values of an aggregate over the rows of the innermost SELECT.
    pub(super) fn in_aggregate<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        match self.names.aggregates() {
            Aggregates::Forbidden => return Err(Error::AggregateInWhere {}),
            Aggregates::Inside => return Err(Error::AggregateNested {}),
            Aggregates::Allowed => {}
        }
        let set = |binder: &mut Self, aggregates| {
            if let Some(scope) = binder.names.scopes.last_mut() {
                scope.aggregates = aggregates;
            }
        };
        set(self, Aggregates::Inside);
        let made = work(self);
        set(self, Aggregates::Allowed);
        made
    }

    /// Returns the columns that a table of FROM offers.
    pub(crate) fn columns_of(&mut self, table: &TableRef) -> Result<Vec<Offered>> {
        self.in_scope(Scope::new(), |binder| {
            binder.table_ref(table)?;
            let sources = binder.names.scopes.last_mut().map(|scope| &mut scope.sources);
            let sources = sources.map(std::mem::take).unwrap_or_default();
            Ok(sources.into_iter().flat_map(|source| source.columns).collect())
        })
    }
}
