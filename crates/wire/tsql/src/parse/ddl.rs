//! CREATE, ALTER and DROP.

use super::Parser;
use crate::ast::defined::CreateIndex;
use crate::ast::principal::Securable;
use crate::ast::{
    Action, AlterTable, ColumnDef, Constraint, ConstraintKind, CreateProc, CreateTable, Expr,
    Filled, Kind, Name, ObjectKind, Security,
};
use crate::error::{Error, Result};
use crate::lex::Tok;
use tdekit_wire_tds::messages::CollationError;
use tdekit_wire_tds::{Collation, SqlType};

use crate::value::{is_text, type_name};

impl Parser<'_> {
    /// The rest of CREATE, ALTER or DROP; `verb` is at the current position.
    pub(crate) fn definition(&mut self, verb: &str) -> Result<Kind> {
        let start = self.token().start;
        self.advance();
        match verb {
            "DROP" => match self.drop_principal()? {
                Some(kind) => Ok(kind),
                None => self.drop_statement(),
            },
            "ALTER" => {
                if self.is("TABLE") {
                    return self.alter_table();
                }
                if self.eat("INDEX") {
                    return self.alter_index();
                }
                if self.eat("SEQUENCE") {
                    return self.sequence(false);
                }
                if self.eat("SCHEMA") {
                    return self.alter_schema();
                }
                if self.is("DATABASE") {
                    return self.alter_database().map(|made| Kind::Act(Action::Security(made)));
                }
                if let Some(kind) = self.alter_principal()? {
                    return Ok(kind);
                }
                if self.eat_words(&["MASTER", "KEY"]) {
                    return self.alter_master_key().map(|made| Kind::Act(Action::Security(made)));
                }
                self.module(start, false, true)
            }
            _ => {
                let replace = self.eat_words(&["OR", "ALTER"]);
                if !replace && self.eat("TYPE") {
                    return self.create_type(start);
                }
                if !replace && let Some(kind) = self.create()? {
                    return Ok(kind);
                }
                self.module(start, true, replace)
            }
        }
    }

    fn create(&mut self) -> Result<Option<Kind>> {
        let kind = if self.eat("TABLE") {
            let name = self.name()?;
            Kind::Act(Action::CreateTable(Box::new(self.table_body(name)?)))
        } else if self.is("UNIQUE")
            || self.is("CLUSTERED")
            || self.is("NONCLUSTERED")
            || self.is("INDEX")
        {
            self.create_index()?
        } else if self.is_words(&["DATABASE", "ENCRYPTION"]) {
            Kind::Act(Action::Security(self.encryption_key()?))
        } else if self.eat("DATABASE") {
            self.create_database()?
        } else if self.eat("SCHEMA") {
            self.create_schema()?
        } else if self.eat("SEQUENCE") {
            self.sequence(true)?
        } else if self.is("MASTER") || self.is("CERTIFICATE") {
            Kind::Act(Action::Security(self.create_security()?))
        } else {
            return self.create_principal();
        };
        Ok(Some(kind))
    }

    /// `name [AUTHORIZATION owner]`, with no definitions after it.
    fn create_schema(&mut self) -> Result<Kind> {
        let name = if self.is("AUTHORIZATION") { None } else { Some(self.identifier()?) };
        let owner = if self.eat("AUTHORIZATION") { Some(self.identifier()?) } else { None };
        if let Tok::Word(word) = self.tok() {
            let word = word.to_ascii_uppercase();
            return Err(Error::unsupported(format!("CREATE SCHEMA .. {word}")));
        }
        let named = name.or_else(|| owner.clone());
        let name = named.ok_or_else(|| self.unexpected())?;
        Ok(Kind::Act(Action::CreateSchema(name, owner)))
    }

    /// `name TRANSFER [OBJECT::]object`.
    fn alter_schema(&mut self) -> Result<Kind> {
        let schema = self.identifier()?;
        self.expect("TRANSFER")?;
        if self.is("TYPE") || self.is("XML") {
            return Err(Error::unsupported("ALTER SCHEMA TRANSFER of a type"));
        }
        match self.securable()? {
            Securable::Object(name) => Ok(Kind::Act(Action::Transfer(schema, name))),
            _ => Err(self.unexpected()),
        }
    }

    /// PROCEDURE, VIEW or TRIGGER, whose text is kept.
    fn module(&mut self, start: usize, may_create: bool, may_replace: bool) -> Result<Kind> {
        if self.eat("PROCEDURE") || self.eat("PROC") {
            let name = self.name()?;
            let params = if self.is_op("(") {
                self.advance();
                let params = self.parameters()?;
                self.expect_op(")")?;
                params
            } else {
                self.parameters()?
            };
            if self.eat("WITH") {
                let options = self.commas(Self::word)?;
                if let Some(option) = options.iter().find(|option| *option != "RECOMPILE") {
                    return Err(Error::unsupported(format!("WITH {option}")));
                }
            }
            self.expect("AS")?;
            let mut body = Vec::new();
            while self.eat_op(";") {}
            while *self.tok() != Tok::End {
                body.push(self.statement()?);
            }
            let text = self.text[start..].to_owned();
            let made = CreateProc { name, params, body, may_create, may_replace, text };
            return Ok(Kind::Act(Action::CreateProc(Box::new(made))));
        }
        if self.is("TRIGGER") {
            return self.trigger(may_create, may_replace);
        }
        if self.eat("VIEW") {
            let name = self.name()?;
            let columns = if self.is_op("(") { self.list(Self::identifier)? } else { Vec::new() };
            if self.eat("WITH") {
                return Err(Error::unsupported(format!("VIEW WITH {}", self.word()?)));
            }
            self.expect("AS")?;
            let query = Box::new(self.subquery_body()?);
            self.eat_op(";");
            if *self.tok() != Tok::End {
                return Err(self.unexpected());
            }
            let text = self.text[start..].to_owned();
            return Ok(Kind::Act(Action::CreateView { name, columns, query, text, may_replace }));
        }
        if self.eat("FUNCTION") {
            return self.create_function(start, may_create, may_replace);
        }
        match self.tok() {
            Tok::Word(word) => Err(Error::unsupported(word.to_ascii_uppercase())),
            _ => Err(self.unexpected()),
        }
    }

    pub(super) fn default_value(&mut self) -> Result<Expr> {
        if self.is_identifier() {
            return Ok(Expr::Str(self.identifier()?, true));
        }
        self.expression()
    }

    pub(crate) fn table_body(&mut self, name: Name) -> Result<CreateTable> {
        let mut table = CreateTable { name, columns: Vec::new(), constraints: Vec::new() };
        self.expect_op("(")?;
        loop {
            if self.is_op(")") {
                break;
            }
            if self.starts_constraint() {
                let constraint = self.constraint()?;
                if matches!(constraint.kind, ConstraintKind::Default(..)) {
                    return Err(Error::SyntaxKeyword { near: "FOR".to_owned() });
                }
                table.constraints.push(constraint);
            } else {
                table.columns.push(self.column_def(false)?);
            }
            if !self.eat_op(",") {
                break;
            }
        }
        self.expect_op(")")?;
        if table.columns.is_empty() {
            return Err(self.unexpected());
        }
        self.storage_options()?;
        Ok(table)
    }

    /// ON filegroup, TEXTIMAGE_ON, WITH (..): storage options, which SQLite decides.
    fn storage_options(&mut self) -> Result<()> {
        loop {
            if self.eat("ON") || self.eat("TEXTIMAGE_ON") {
                if self.is("PRIMARY") {
                    self.advance();
                } else {
                    let place = self.identifier()?;
                    if !place.eq_ignore_ascii_case("PRIMARY") {
                        return Err(Error::unsupported(format!("ON {place}")));
                    }
                }
            } else if self.is("WITH") && self.is_op_at(1, "(") {
                self.advance();
                self.list(|parser| {
                    let option = parser.word()?;
                    parser.expect_op("=")?;
                    let known = [
                        "PAD_INDEX",
                        "FILLFACTOR",
                        "STATISTICS_NORECOMPUTE",
                        "ALLOW_ROW_LOCKS",
                        "ALLOW_PAGE_LOCKS",
                        "SORT_IN_TEMPDB",
                        "ONLINE",
                        "MAXDOP",
                        "DATA_COMPRESSION",
                        "OPTIMIZE_FOR_SEQUENTIAL_KEY",
                        "DROP_EXISTING",
                        "IGNORE_DUP_KEY",
                    ];
                    if !known.contains(&option.as_str()) {
                        return Err(Error::NotARecognizedOption { name: option });
                    }
                    if matches!(parser.tok(), Tok::Int(_)) {
                        parser.integer()?;
                        return Ok(());
                    }
                    let value = parser.word()?;
                    let matters = matches!(option.as_str(), "IGNORE_DUP_KEY" | "DROP_EXISTING");
                    if matters && value == "ON" {
                        return Err(Error::unsupported(format!("{option} = ON")));
                    }
                    Ok(())
                })?;
            } else {
                return Ok(());
            }
        }
    }

    fn starts_constraint(&self) -> bool {
        ["CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|word| self.is(word))
    }

    /// A column; one that ALTER TABLE adds may have WITH VALUES.
    fn column_def(&mut self, adds: bool) -> Result<ColumnDef> {
        let name = self.identifier()?;
        if self.eat("AS") {
            return self.computed_def(name);
        }
        let version = self.is("ROWVERSION") || self.is("TIMESTAMP");
        let bare = name.eq_ignore_ascii_case("timestamp")
            && (self.is_op(",") || self.is_op(")") || self.is("NULL") || self.is("NOT"));
        let (ty, user_type) = match version || bare {
            true => (SqlType::Binary(8), None),
            false => self.column_type()?,
        };
        if version {
            self.advance();
        }
        let filled = if version || bare { Filled::Version } else { Filled::Given };
        let mut column = ColumnDef {
            name,
            ty,
            nullable: None,
            identity: None,
            default: None,
            default_name: None,
            with_values: false,
            constraints: Vec::new(),
            filled,
            user_type,
            collation: Collation::default(),
        };
        loop {
            if self.eat_words(&["NOT", "NULL"]) {
                column.nullable = Some(false);
            } else if self.eat("NULL") {
                column.nullable = Some(true);
            } else if self.eat("IDENTITY") {
                let (mut seed, mut increment) = (1, 1);
                if self.eat_op("(") {
                    seed = self.integer()?;
                    self.expect_op(",")?;
                    increment = self.integer()?;
                    self.expect_op(")")?;
                }
                if increment == 0 {
                    return Err(Error::BadIdentityType { name: column.name });
                }
                column.identity = Some((seed, increment));
            } else if self.eat("COLLATE") {
                column.collation = self.column_collation(&column)?;
            } else if self.is("DEFAULT") || (self.is("CONSTRAINT") && self.is_word_at(2, "DEFAULT"))
            {
                if self.eat("CONSTRAINT") {
                    column.default_name = Some(self.identifier()?);
                }
                column.default = Some(self.default_text()?);
                column.with_values = adds && self.eat_words(&["WITH", "VALUES"]);
            } else if self.is("REFERENCES") || self.starts_constraint() {
                column.constraints.push(self.constraint()?);
            } else if self.is("ROWGUIDCOL") || self.is("SPARSE") || self.is("MASKED") {
                return Err(Error::unsupported(self.word()?));
            } else {
                return Ok(column);
            }
        }
    }

    /// The name behind COLLATE.
    fn column_collation(&mut self, column: &ColumnDef) -> Result<Collation> {
        let collation = crate::value::collation::named(&self.identifier()?)?;
        if column.user_type.is_some() {
            return Err(CollationError::UserType {}.into());
        }
        if !is_text(column.ty) || column.ty == SqlType::Xml {
            let ty = type_name(column.ty).to_owned();
            return Err(CollationError::NotText { ty }.into());
        }
        Ok(collation)
    }

    /// `expression [PERSISTED [NOT NULL]]` of a computed column.
    fn computed_def(&mut self, name: String) -> Result<ColumnDef> {
        let start = self.token().start;
        let expr = self.expression()?;
        if super::sequence::in_expr(&expr) {
            return Err(Error::NextHere {});
        }
        refuse_subquery(&expr)?;
        let end = self.at.checked_sub(1).map_or(start, |at| self.tokens[at].end);
        let text = self.text.get(start..end).unwrap_or_default().to_owned();
        let persisted = self.eat("PERSISTED");
        if persisted && self.eat_words(&["NOT", "NULL"]) {
            return Err(Error::feature("NOT NULL of a computed column"));
        }
        if self.is("REFERENCES") || self.starts_constraint() {
            return Err(Error::feature("a constraint of a computed column"));
        }
        Ok(ColumnDef {
            name,
            // the expression's, when it is bound
            ty: SqlType::Int,
            nullable: None,
            identity: None,
            default: None,
            default_name: None,
            with_values: false,
            constraints: Vec::new(),
            filled: Filled::Computed { text, persisted },
            user_type: None,
            // the expression's, as well
            collation: Collation::default(),
        })
    }

    /// DEFAULT and its expression, as written.
    fn default_text(&mut self) -> Result<String> {
        self.expect("DEFAULT")?;
        let start = self.token().start;
        // a value of a sequence is allowed here, and is taken by other statements
        let outside = self.next_values;
        refuse_subquery(&self.expression()?)?;
        self.next_values = outside;
        let end = self.at.checked_sub(1).map_or(start, |at| self.tokens[at].end);
        Ok(self.text[start..end].to_owned())
    }

    /// A condition, and its text as written.
    fn condition_text(&mut self) -> Result<(Expr, String)> {
        let start = self.token().start;
        let condition = self.condition()?;
        if super::sequence::in_expr(&condition) {
            return Err(Error::NextHere {});
        }
        refuse_subquery(&condition)?;
        let end = self.at.checked_sub(1).map_or(start, |at| self.tokens[at].end);
        Ok((condition, self.text.get(start..end).unwrap_or_default().to_owned()))
    }

    fn constraint(&mut self) -> Result<Constraint> {
        let name = if self.eat("CONSTRAINT") { Some(self.identifier()?) } else { None };
        if self.eat("CHECK") {
            self.expect_op("(")?;
            let (check, text) = self.condition_text()?;
            self.expect_op(")")?;
            return Ok(Constraint { name, kind: ConstraintKind::Check(check, text) });
        }
        if self.is("DEFAULT") {
            let text = self.default_text()?;
            self.expect("FOR")?;
            let column = self.identifier()?;
            // rows have values of a column that is there already, so this changes nothing
            self.eat_words(&["WITH", "VALUES"]);
            return Ok(Constraint { name, kind: ConstraintKind::Default(text, column) });
        }
        if self.is("FOREIGN") || self.is("REFERENCES") {
            let mut columns = Vec::new();
            if self.eat_words(&["FOREIGN", "KEY"]) && self.is_op("(") {
                columns = self.list(Self::identifier)?;
            }
            return self.foreign_key(name, columns);
        }
        let primary = if self.eat_words(&["PRIMARY", "KEY"]) {
            true
        } else {
            self.expect("UNIQUE")?;
            false
        };
        if !self.eat("CLUSTERED") {
            self.eat("NONCLUSTERED");
        }
        let columns = if self.is_op("(") { self.list(Self::index_column)? } else { Vec::new() };
        self.storage_options()?;
        let kind = if primary {
            ConstraintKind::Primary(columns)
        } else {
            ConstraintKind::Unique(columns)
        };
        Ok(Constraint { name, kind })
    }

    fn foreign_key(&mut self, name: Option<String>, columns: Vec<String>) -> Result<Constraint> {
        self.expect("REFERENCES")?;
        let table = self.name()?;
        let parents = if self.is_op("(") { self.list(Self::identifier)? } else { Vec::new() };
        let (mut on_delete, mut on_update) = (None, None);
        while self.eat("ON") {
            let which = self.word()?;
            let action = if self.eat("CASCADE") {
                Some("CASCADE")
            } else if self.eat_words(&["SET", "NULL"]) {
                Some("SET NULL")
            } else if self.eat_words(&["SET", "DEFAULT"]) {
                Some("SET DEFAULT")
            } else {
                self.expect_words(&["NO", "ACTION"])?;
                None
            };
            match which.as_str() {
                "DELETE" => on_delete = action,
                "UPDATE" => on_update = action,
                _ => return Err(Error::Syntax { near: which }),
            }
        }
        let kind = ConstraintKind::Foreign { columns, table, parents, on_delete, on_update };
        Ok(Constraint { name, kind })
    }

    fn index_column(&mut self) -> Result<(String, bool)> {
        let name = self.identifier()?;
        let descending = self.eat("DESC");
        if !descending {
            self.eat("ASC");
        }
        Ok((name, descending))
    }

    fn create_index(&mut self) -> Result<Kind> {
        let unique = self.eat("UNIQUE");
        if !self.eat("CLUSTERED") {
            self.eat("NONCLUSTERED");
        }
        if self.is("COLUMNSTORE") {
            return Err(Error::unsupported("COLUMNSTORE"));
        }
        self.expect("INDEX")?;
        let name = self.identifier()?;
        self.expect("ON")?;
        let table = self.name()?;
        let columns = self.list(Self::index_column)?;
        let included = if self.eat("INCLUDE") { self.list(Self::identifier)? } else { Vec::new() };
        let filter = if self.eat("WHERE") { Some(self.condition_text()?) } else { None };
        self.storage_options()?;
        let made = CreateIndex { name, table, unique, columns, included, filter };
        Ok(Kind::Act(Action::CreateIndex(Box::new(made))))
    }

    /// `{name | ALL} ON table {REBUILD | REORGANIZE}`.
    fn alter_index(&mut self) -> Result<Kind> {
        let index = if self.eat("ALL") { None } else { Some(self.identifier()?) };
        self.expect("ON")?;
        let table = self.name()?;
        match self.word()?.as_str() {
            "REBUILD" => {
                if self.eat("PARTITION") {
                    self.expect_op("=")?;
                    self.expect("ALL")?;
                }
                self.storage_options()?;
            }
            "REORGANIZE" => {}
            other => return Err(Error::unsupported(format!("ALTER INDEX {other}"))),
        }
        Ok(Kind::Act(Action::Rebuild { index, table }))
    }

    fn alter_table(&mut self) -> Result<Kind> {
        self.advance();
        let name = self.name()?;
        if let Some(kind) = self.triggers_of_table(&name)? {
            return Ok(kind);
        }
        let change = if self.eat("DROP") {
            self.drop_from_table()?
        } else {
            let unchecked = self.eat_words(&["WITH", "NOCHECK"]);
            let checked = !unchecked && self.eat_words(&["WITH", "CHECK"]);
            if self.eat_words(&["ALTER", "COLUMN"]) {
                self.alter_column()?
            } else if self.eat("ADD") {
                self.add_to_table(unchecked)?
            } else if self.eat_words(&["CHECK", "CONSTRAINT"]) {
                self.switch_constraints(true, checked)?
            } else if self.eat_words(&["NOCHECK", "CONSTRAINT"]) {
                self.switch_constraints(false, false)?
            } else if let Tok::Word(word) = self.tok() {
                let word = word.to_ascii_uppercase();
                return Err(Error::unsupported(format!("ALTER TABLE {word}")));
            } else {
                return Err(self.unexpected());
            }
        };
        Ok(Kind::Act(Action::AlterTable(name, change)))
    }

    /// `{ALL | name, ..}` of CHECK CONSTRAINT and NOCHECK CONSTRAINT.
    fn switch_constraints(&mut self, enable: bool, check: bool) -> Result<AlterTable> {
        let all = self.eat("ALL");
        let names = if all { Vec::new() } else { self.commas(Self::identifier)? };
        Ok(AlterTable::Switch { names, enable, check })
    }

    /// The rest of ADD. WITH NOCHECK has no effect on keys and defaults.
    fn add_to_table(&mut self, unchecked: bool) -> Result<AlterTable> {
        let (mut columns, mut constraints) = (Vec::new(), Vec::new());
        loop {
            if self.starts_constraint() || self.is("DEFAULT") {
                constraints.push(self.constraint()?);
            } else {
                columns.push(self.column_def(true)?);
            }
            if !self.eat_op(",") {
                break;
            }
        }
        Ok(AlterTable::Add(columns, constraints, unchecked))
    }

    /// `name type [COLLATE ..] [NULL | NOT NULL]`.
    fn alter_column(&mut self) -> Result<AlterTable> {
        if self.is_word_at(1, "ADD") || self.is_word_at(1, "DROP") {
            return Err(Error::unsupported("ALTER COLUMN ADD and DROP"));
        }
        let column = self.column_def(false)?;
        let more = column.identity.is_some() || column.default.is_some();
        if more || !column.constraints.is_empty() {
            return Err(self.unexpected());
        }
        Ok(AlterTable::AlterColumn(column))
    }

    fn drop_from_table(&mut self) -> Result<AlterTable> {
        if self.eat("COLUMN") {
            let if_exists = self.eat_words(&["IF", "EXISTS"]);
            return Ok(AlterTable::DropColumn(self.commas(Self::identifier)?, if_exists));
        }
        self.eat("CONSTRAINT");
        let if_exists = self.eat_words(&["IF", "EXISTS"]);
        let names = self.commas(|parser| {
            parser.eat("CONSTRAINT");
            parser.identifier()
        })?;
        if self.is("WITH") {
            return Err(Error::unsupported("DROP CONSTRAINT WITH"));
        }
        Ok(AlterTable::DropConstraint(names, if_exists))
    }

    fn drop_statement(&mut self) -> Result<Kind> {
        let kind = match self.word()?.as_str() {
            "TABLE" => ObjectKind::Table,
            "VIEW" => ObjectKind::View,
            "PROCEDURE" | "PROC" => ObjectKind::Procedure,
            "INDEX" => ObjectKind::Index,
            "DATABASE" if self.eat_words(&["ENCRYPTION", "KEY"]) => ObjectKind::EncryptionKey,
            "DATABASE" => ObjectKind::Database,
            "CERTIFICATE" => ObjectKind::Certificate,
            "SCHEMA" => ObjectKind::Schema,
            "SEQUENCE" => ObjectKind::Sequence,
            "TYPE" => ObjectKind::Type,
            "FUNCTION" => ObjectKind::Function,
            "TRIGGER" => ObjectKind::Trigger,
            "MASTER" => {
                self.expect("KEY")?;
                ObjectKind::MasterKey
            }
            other => return Err(Error::unsupported(format!("DROP {other}"))),
        };
        if matches!(kind, ObjectKind::EncryptionKey | ObjectKind::MasterKey) {
            return Ok(Kind::Act(Action::Drop {
                kind,
                names: Vec::new(),
                if_exists: false,
                on: None,
            }));
        }
        let if_exists = self.eat_words(&["IF", "EXISTS"]);
        let names = self.commas(Self::name)?;
        if kind == ObjectKind::Trigger && self.is("ON") {
            return Err(Error::unsupported("DROP TRIGGER ON"));
        }
        let on =
            if kind == ObjectKind::Index && self.eat("ON") { Some(self.name()?) } else { None };
        Ok(Kind::Act(Action::Drop { kind, names, if_exists, on }))
    }

    fn create_security(&mut self) -> Result<Security> {
        if self.eat_words(&["MASTER", "KEY"]) {
            let mut password = None;
            if self.eat_words(&["ENCRYPTION", "BY", "PASSWORD"]) {
                self.expect_op("=")?;
                password = Some(self.string()?);
            }
            return Ok(Security::CreateMasterKey { password });
        }
        self.expect("CERTIFICATE")?;
        self.create_certificate()
    }
}

/// Computed columns, defaults and conditions of a table have its own row alone.
fn refuse_subquery(expr: &Expr) -> Result<()> {
    match expr.any(&|part| part.query().is_some()) {
        true => Err(Error::SubqueryHere {}),
        false => Ok(()),
    }
}
