//! User-defined types: their definitions, and declarations that name them.

use std::sync::Arc;

use tdekit_wire_tds::SqlType;
use tdekit_wire_tds::messages::DefinedError;

use super::Parser;
use crate::ast::cursor::Cursor;
use crate::ast::defined::{CreateType, DeclareTyped, TypeKind, UserType};
use crate::ast::{
    Action, ColumnDef, Constraint, ConstraintKind, CreateTable, Kind, Name, ProcParam, Stmt,
};
use crate::error::{Error, Result};

/// Finds a user-defined type by its name.
pub(crate) type FindType<'a> = &'a dyn Fn(&Name) -> Result<Option<Arc<UserType>>>;

/// Finds a stand-in for any type: for a text that is only looked at.
#[expect(clippy::unnecessary_wraps, reason = "as others that find types")]
pub(super) fn stand_in(name: &Name) -> Result<Option<Arc<UserType>>> {
    Ok(Some(Arc::new(UserType::stand_in(name))))
}

/// The type of a variable or a parameter.
struct Declared {
    ty: SqlType,
    user_type: Option<Arc<UserType>>,
}

impl Parser<'_> {
    /// The type of a column: one of T-SQL, or the name of a user-defined one.
    pub(super) fn column_type(&mut self) -> Result<(SqlType, Option<Name>)> {
        let mark = self.at;
        match self.data_type() {
            Err(Error::UnknownType { .. }) => {
                self.at = mark;
                Ok((SqlType::Int, Some(self.name()?)))
            }
            ty => ty.map(|ty| (ty, None)),
        }
    }

    /// The type of the variable or parameter of this number.
    fn declared(&mut self, number: usize) -> Result<Declared> {
        let (ty, named) = self.column_type()?;
        let Some(name) = named else { return Ok(Declared { ty, user_type: None }) };
        let Some(found) = (self.types)(&name)? else {
            return Err(DefinedError::NoType { number, name: name.text() }.into());
        };
        let ty = match &found.kind {
            TypeKind::Alias { ty, .. } => *ty,
            TypeKind::Table(_) => SqlType::Int,
        };
        Ok(Declared { ty, user_type: Some(found) })
    }

    /// The variables of DECLARE.
    pub(super) fn declared_variables(&mut self) -> Result<Kind> {
        let (line, start) = (self.line(), self.token().start);
        let (mut plain, mut tables, mut cursors) = (Vec::new(), Vec::new(), Vec::new());
        let mut number = 0;
        loop {
            number += 1;
            let name = self.variable()?;
            self.eat("AS");
            if self.eat("CURSOR") {
                cursors.push(Kind::Cursor(Box::new(Cursor::Variable(name))));
                if self.eat_op(",") {
                    continue;
                }
                break;
            }
            let declared = self.declared(number)?;
            let table = declared.user_type.filter(|found| found.table().is_some());
            if let Some(of) = table {
                let table = declared_table(&of, name);
                tables.push(Action::DeclareTyped(Box::new(DeclareTyped { table, of })));
            } else {
                let value = if self.eat_op("=") { Some(self.expression()?) } else { None };
                plain.push((name, declared.ty, value));
            }
            if !self.eat_op(",") {
                break;
            }
        }
        let span = (start, self.behind());
        let mut kinds: Vec<Kind> = tables.into_iter().map(Kind::Act).chain(cursors).collect();
        if !plain.is_empty() {
            kinds.push(Kind::Declare(plain));
        }
        match kinds.len() {
            1 => Ok(kinds.remove(0)),
            _ => Ok(Kind::Block(kinds.into_iter().map(|kind| Stmt { line, span, kind }).collect())),
        }
    }

    /// Parameters of a procedure, of a function, or of `sp_executesql`.
    pub(crate) fn parameters(&mut self) -> Result<Vec<ProcParam>> {
        let mut params: Vec<ProcParam> = Vec::new();
        while matches!(self.tok(), crate::lex::Tok::Var(_)) {
            let name = self.variable()?;
            self.eat("AS");
            let Declared { ty, user_type } = self.declared(params.len() + 1)?;
            if self.is("VARYING") {
                return Err(Error::unsupported(self.word()?));
            }
            let is_table = user_type.as_ref().is_some_and(|found| found.table().is_some());
            let open = user_type.as_ref().is_some_and(|found| found.is_stand_in());
            let readonly = self.eat("READONLY");
            if !open && readonly != is_table {
                return Err(match is_table {
                    true => DefinedError::NotReadOnly { name }.into(),
                    false => DefinedError::NotATable { name }.into(),
                });
            }
            if self.eat("NOT") {
                return Err(Error::unsupported("NOT NULL of a parameter"));
            }
            let (mut default, mut output) = (None, false);
            if !readonly {
                self.eat("NULL");
                default = if self.eat_op("=") { Some(self.default_value()?) } else { None };
                output = self.eat("OUTPUT") || self.eat("OUT");
            }
            params.push(ProcParam { name, ty, default, output, user_type });
            if !self.eat_op(",") {
                break;
            }
        }
        Ok(params)
    }

    /// `name FROM base [NULL | NOT NULL]`, or `name AS TABLE (..)`, behind CREATE TYPE.
    pub(super) fn create_type(&mut self, start: usize) -> Result<Kind> {
        let name = self.name()?;
        let kind = if self.eat("FROM") {
            let ty = self.data_type()?;
            let refused = matches!(ty, SqlType::Xml | SqlType::SqlVariant);
            if refused {
                let base = crate::value::type_name(ty);
                return Err(Error::feature(format!("CREATE TYPE .. FROM {base}")));
            }
            let nullable = !self.eat_words(&["NOT", "NULL"]);
            if nullable {
                self.eat("NULL");
            }
            TypeKind::Alias { ty, nullable }
        } else if self.eat_words(&["AS", "TABLE"]) {
            let table = self.table_body(name.clone())?;
            check_table_type(&table)?;
            TypeKind::Table(Box::new(table))
        } else if self.is("EXTERNAL") {
            return Err(Error::unsupported("CREATE TYPE .. EXTERNAL NAME"));
        } else {
            return Err(self.unexpected());
        };
        let text = self.text.get(start..self.behind()).unwrap_or_default().to_owned();
        Ok(Kind::Act(Action::CreateType(Box::new(CreateType { name, kind, text }))))
    }
}

/// A table of this type, named as a variable.
pub(crate) fn declared_table(of: &UserType, name: String) -> CreateTable {
    let table = of.table().cloned().unwrap_or_else(|| CreateTable {
        name: Name::default(),
        columns: Vec::new(),
        constraints: Vec::new(),
    });
    CreateTable { name: Name(vec![name]), ..table }
}

/// A table type has no foreign keys, and its constraints have no names.
fn check_table_type(table: &CreateTable) -> Result<()> {
    let word = |near: &str| Err(Error::SyntaxKeyword { near: near.to_owned() });
    let within = table.columns.iter().flat_map(|column: &ColumnDef| &column.constraints);
    for Constraint { name, kind } in within.chain(&table.constraints) {
        if name.is_some() {
            return word("CONSTRAINT");
        }
        match kind {
            ConstraintKind::Foreign { .. } => return word("REFERENCES"),
            ConstraintKind::Default(..) => return word("FOR"),
            ConstraintKind::Primary(_) | ConstraintKind::Unique(_) | ConstraintKind::Check(..) => {}
        }
    }
    match table.columns.iter().any(|column| column.default_name.is_some()) {
        true => word("CONSTRAINT"),
        false => Ok(()),
    }
}
