//! Descriptions of texts: their results, and the types of their parameters. Source: the
//! documentation of sp_describe_first_result_set and sp_describe_undeclared_parameters.

use std::collections::HashMap;
use std::sync::Arc;

use tdekit_wire_tds::{Description, Generated, Length, SqlType, Value};

use crate::ast::{Exec, ExecTarget, Expr, Kind, ProcParam, Stmt};
use crate::bind::{Undeclared, Variables};
use crate::error::{Error, Result};
use crate::host::Rows;
use crate::lex::{Tok, lex};
use crate::run::bound::bind;
use crate::run::called::{Given, located};
use crate::run::catalog::model::schema_and_name;
use crate::run::catalog::types::{entry, public_name, type_facts, type_id};
use crate::run::catalog::views::types::TABLE_TYPE;
use crate::run::db::Db;
use crate::run::gate::Gate;
use crate::run::state::State;
use crate::run::texts::Texts;
use crate::run::typed::declare_parameters;
use crate::value::{Val, declaration, is_text};

const NAME: SqlType = SqlType::NVarChar(Length::Of(128));

fn text(value: impl Into<String>) -> Val {
    Value::Text(value.into().into())
}

fn int(value: impl Into<i64>) -> Val {
    Value::Int(value.into())
}

/// Returns the type as `sys.types` and a length would write it.
fn declared(ty: SqlType) -> String {
    declaration(ty).replacen(crate::value::type_name(ty), public_name(ty), 1)
}

/// Returns the type and length in the protocol.
fn protocol(ty: SqlType) -> (i64, i64) {
    let (id, length, _, _) = type_facts(ty);
    let number = match ty {
        SqlType::TinyInt | SqlType::SmallInt | SqlType::Int | SqlType::BigInt => 38,
        SqlType::Real | SqlType::Float => 109,
        SqlType::Money | SqlType::SmallMoney => 110,
        SqlType::DateTime | SqlType::SmallDateTime => 111,
        _ => id,
    };
    (number, if length < 0 { 65_535 } else { length })
}

/// Returns the text that is described, and the declarations of its parameters.
pub(super) fn described_text(given: &[Given]) -> (String, String) {
    let argument = |at: usize| match given.get(at).and_then(|arg| arg.value.as_ref()) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    (argument(0), argument(1))
}

fn shown(columns: &[(&str, SqlType)], rows: Vec<Vec<Val>>) -> Rows {
    let columns = columns.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
    Rows { columns, rows }
}

/// Returns the rows of `sp_describe_first_result_set`.
pub(super) fn result_rows(described: &Description) -> Rows {
    let mut rows = Vec::new();
    for (at, column) in described.columns.iter().enumerate() {
        let (id, length, precision, scale) = type_facts(column.ty);
        let (tds, tds_length) = protocol(column.ty);
        let collated = is_text(column.ty) && column.ty != SqlType::Xml;
        let mut row = vec![
            Value::Bit(false),
            int(i64::try_from(at + 1).unwrap_or(0)),
            if column.name.is_empty() { Value::Null } else { text(column.name.clone()) },
            Value::Bit(column.nullable),
            int(id),
            text(declared(column.ty)),
            int(length),
            int(precision),
            int(scale),
            if collated { text(column.collation.name()) } else { Value::Null },
        ];
        row.extend(std::iter::repeat_n(Value::Null, 9));
        row.extend([Value::Bit(false), Value::Bit(false), Value::Bit(false)]);
        row.extend(std::iter::repeat_n(Value::Null, 4));
        row.extend([Value::Bit(column.generated == Generated::Identity)]);
        let updatable = column.generated == Generated::No;
        row.extend([Value::Null, Value::Bit(updatable)]);
        let computed = column.generated == Generated::Computed;
        row.extend([Value::Bit(computed), Value::Bit(false)]);
        row.extend(std::iter::repeat_n(Value::Null, 3));
        row.extend([int(tds), int(tds_length), Value::Null, Value::Null]);
        rows.push(row);
    }
    shown(RESULT, rows)
}

/// The parts of a session that the description of parameters needs.
pub(super) struct Describing<'a> {
    pub(super) db: &'a mut Db,
    pub(super) state: &'a State,
    pub(super) texts: &'a mut Texts,
}

/// Returns the rows of `sp_describe_undeclared_parameters`.
pub(super) fn parameter_rows(
    parts: &mut Describing<'_>,
    (statement, declarations): (&str, &str),
) -> Result<Rows> {
    let quoted = parts.state.options.quoted_identifier;
    let database = &parts.state.database;
    let declared = parts.db.parse_declarations(declarations, database);
    let (declared_already, _) = declared.map_err(|at| located(at, ""))?;
    let parsed = parts.db.parse(statement, quoted, database);
    let (stmts, _) = parsed.map_err(|at| located(at, ""))?;
    let mut variables = declare_parameters(&declared_already)?;
    let mut formal = Vec::new();
    note_names(&stmts, &mut variables, &mut formal)?;
    let (mut open, mut names) = (Undeclared::new(), Vec::new());
    for token in lex(statement, quoted).map_err(|at| located(at, ""))? {
        let Tok::Var(name) = token.tok else { continue };
        if name.starts_with("@@") || variables.find(&name).is_ok() {
            continue;
        }
        // which of several is left out does not matter
        if let Some(at) = formal.iter().position(|own| name.eq_ignore_ascii_case(own)) {
            formal.swap_remove(at);
            continue;
        }
        if open.insert(name.to_lowercase(), Arc::default()).is_some() {
            return Err(Error::UsedTwice { name });
        }
        names.push(name);
    }
    let open = Arc::new(open);
    let mut formals = Formals::new();
    parts.bind_all(&stmts, &variables, &open, &mut formals)?;
    let mut rows = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let key = name.to_lowercase();
        if let Some(formal) = formals.get(&key) {
            rows.push(formal_row(at, name, formal));
            continue;
        }
        let Some(ty) = open.get(&key).and_then(|cell| cell.get()) else {
            return Err(Error::NotDeduced { name: name.clone() });
        };
        rows.push(parameter_row(at, name, *ty));
    }
    Ok(shown(PARAMETERS, rows))
}

impl Describing<'_> {
    fn bind_all<'s>(
        &mut self,
        stmts: impl IntoIterator<Item = &'s Stmt>,
        variables: &Variables,
        open: &Arc<Undeclared>,
        formals: &mut Formals,
    ) -> Result<()> {
        for stmt in stmts {
            match &stmt.kind {
                Kind::Exec(exec) => self.describe_call(exec, open, formals)?,
                Kind::Query(_)
                | Kind::Insert(_)
                | Kind::Update(_)
                | Kind::Delete(_)
                | Kind::Merge(_) => {
                    bind((self.db, self.state), &stmt.kind, variables, Some(open.clone()))?;
                }
                _ => {
                    let mut inner = Vec::new();
                    stmt.children(&mut |part| inner.push(part));
                    self.bind_all(inner, variables, open, formals)?;
                }
            }
        }
        Ok(())
    }

    /// Notes the parameters of a procedure for which a call gives variables that are not declared.
    fn describe_call(
        &mut self,
        exec: &Exec,
        open: &Undeclared,
        formals: &mut Formals,
    ) -> Result<()> {
        let ExecTarget::Procedure(name) = &exec.target else { return Ok(()) };
        let current = &self.state.database;
        let Some(text) = self.db.module(name, current, "P")? else { return Ok(()) };
        let (_, database, stored) = self.db.place(name, current)?;
        Gate::new(self.db, self.state).admit_procedure(&database, &stored)?;
        let compiled = self.texts.procedure(name, &text, (self.db, &database))?;
        for (at, arg) in exec.args.iter().enumerate() {
            let Some(Expr::Var(variable)) = &arg.value else { continue };
            let variable = variable.to_lowercase();
            let formal = match &arg.name {
                Some(name) => {
                    compiled.params.iter().find(|param| param.name.eq_ignore_ascii_case(name))
                }
                None => compiled.params.get(at),
            };
            if let (true, Some(formal)) = (open.contains_key(&variable), formal) {
                let formal = ProcParam { output: formal.output && arg.output, ..formal.clone() };
                formals.insert(variable, formal);
            }
        }
        Ok(())
    }
}

/// Declares the variables of DECLARE, and lists the names of a procedure's parameters in calls,
/// which are no variables.
fn note_names<'s>(
    stmts: impl IntoIterator<Item = &'s Stmt>,
    variables: &mut Variables,
    formal: &mut Vec<&'s str>,
) -> Result<()> {
    for stmt in stmts {
        match &stmt.kind {
            Kind::Declare(declared) => {
                for (name, ty, _) in declared {
                    variables.declare(name, *ty)?;
                }
            }
            Kind::Exec(exec) => {
                formal.extend(exec.args.iter().filter_map(|arg| arg.name.as_deref()))
            }
            _ => {}
        }
        let mut inner = Vec::new();
        stmt.children(&mut |part| inner.push(part));
        note_names(inner, variables, formal)?;
    }
    Ok(())
}

/// Parameters of procedures, by the variables that are given for them, in lower case.
type Formals = HashMap<String, ProcParam>;

/// Positions in a row of a parameter's description: of the type's number and what follows, the
/// user-defined type's likewise, the direction, the procedure's name for it, the protocol's type.
const TYPE: usize = 2;
const USER: usize = 7;
const OUTPUT: usize = 20;
const FORMAL: usize = 21;
const TDS_TYPE: usize = 22;

fn formal_row(at: usize, name: &str, formal: &ProcParam) -> Vec<Val> {
    let mut row = parameter_row(at, name, formal.ty);
    row[OUTPUT] = Value::Bit(formal.output);
    row[FORMAL] = text(formal.name.clone());
    let Some(of) = &formal.user_type else { return row };
    let (schema, name) = schema_and_name(&of.name);
    let named = vec![int(type_id(&of.name)), text(of.database.clone()), text(schema), text(name)];
    let mut put = |at: usize, values: Vec<Val>| {
        row.splice(at..at + values.len(), values).for_each(drop);
    };
    put(USER, named);
    if of.table().is_some() {
        put(TYPE, vec![int(TABLE_TYPE), Value::Null, int(-1), int(0), int(0)]);
        put(TDS_TYPE, vec![int(TABLE_TYPE), int(65_535)]);
    }
    row
}

fn parameter_row(at: usize, name: &str, ty: SqlType) -> Vec<Val> {
    let (id, length, precision, scale) = type_facts(ty);
    let (tds, tds_length) = protocol(ty);
    let user = entry(ty).user_type_id;
    let mut row = vec![
        int(i64::try_from(at + 1).unwrap_or(0)),
        text(name),
        int(id),
        text(declared(ty)),
        int(length),
        int(precision),
        int(scale),
        if user == id { Value::Null } else { int(user) },
    ];
    row.extend(std::iter::repeat_n(Value::Null, 8));
    row.extend([Value::Bit(false), Value::Bit(false), Value::Bit(false)]);
    row.extend([Value::Bit(true), Value::Bit(false), Value::Null, int(tds), int(tds_length)]);
    row
}

const LONG: SqlType = SqlType::NVarChar(Length::Of(4000));

const RESULT: &[(&str, SqlType)] = &[
    ("is_hidden", SqlType::Bit),
    ("column_ordinal", SqlType::Int),
    ("name", NAME),
    ("is_nullable", SqlType::Bit),
    ("system_type_id", SqlType::Int),
    ("system_type_name", SqlType::NVarChar(Length::Of(256))),
    ("max_length", SqlType::SmallInt),
    ("precision", SqlType::TinyInt),
    ("scale", SqlType::TinyInt),
    ("collation_name", NAME),
    ("user_type_id", SqlType::Int),
    ("user_type_database", NAME),
    ("user_type_schema", NAME),
    ("user_type_name", NAME),
    ("assembly_qualified_type_name", LONG),
    ("xml_collection_id", SqlType::Int),
    ("xml_collection_database", NAME),
    ("xml_collection_schema", NAME),
    ("xml_collection_name", NAME),
    ("is_xml_document", SqlType::Bit),
    ("is_case_sensitive", SqlType::Bit),
    ("is_fixed_length_clr_type", SqlType::Bit),
    ("source_server", NAME),
    ("source_database", NAME),
    ("source_schema", NAME),
    ("source_table", NAME),
    ("is_identity_column", SqlType::Bit),
    ("is_part_of_unique_key", SqlType::Bit),
    ("is_updateable", SqlType::Bit),
    ("is_computed_column", SqlType::Bit),
    ("is_sparse_column_set", SqlType::Bit),
    ("ordinal_in_order_by_list", SqlType::SmallInt),
    ("order_by_list_length", SqlType::SmallInt),
    ("order_by_is_descending", SqlType::SmallInt),
    ("tds_type_id", SqlType::Int),
    ("tds_length", SqlType::Int),
    ("tds_collation_id", SqlType::Int),
    ("tds_collation_sort_id", SqlType::TinyInt),
];

const PARAMETERS: &[(&str, SqlType)] = &[
    ("parameter_ordinal", SqlType::Int),
    ("name", NAME),
    ("suggested_system_type_id", SqlType::Int),
    ("suggested_system_type_name", SqlType::NVarChar(Length::Of(256))),
    ("suggested_max_length", SqlType::SmallInt),
    ("suggested_precision", SqlType::TinyInt),
    ("suggested_scale", SqlType::TinyInt),
    ("suggested_user_type_id", SqlType::Int),
    ("suggested_user_type_database", NAME),
    ("suggested_user_type_schema", NAME),
    ("suggested_user_type_name", NAME),
    ("suggested_assembly_qualified_type_name", LONG),
    ("suggested_xml_collection_id", SqlType::Int),
    ("suggested_xml_collection_database", NAME),
    ("suggested_xml_collection_schema", NAME),
    ("suggested_xml_collection_name", NAME),
    ("suggested_is_xml_document", SqlType::Bit),
    ("suggested_is_case_sensitive", SqlType::Bit),
    ("suggested_is_fixed_length_clr_type", SqlType::Bit),
    ("suggested_is_input", SqlType::Bit),
    ("suggested_is_output", SqlType::Bit),
    ("formal_parameter_name", NAME),
    ("suggested_tds_type_id", SqlType::Int),
    ("suggested_tds_length", SqlType::Int),
];
