//! FOR XML PATH.

use tdekit_wire_tds::messages::XmlError;
use tdekit_wire_tds::{Generated, Length, SqlType, Value};

use super::Binder;
use super::json::{call_of, flag, name, one};
use super::query::{Asked, BoundQuery, OutColumn};
use crate::ast;
use crate::ast::SetExpr;
use crate::ast::document::ForXml;
use crate::error::{Error, Result};
use crate::functions::xml::{Leaf, Path, check_name};
use crate::plan::func::{Func, Json, Xml};
use crate::plan::label::Label;
use crate::plan::relation::Relation;
use crate::plan::scalar::{Aggregate, AggregateFunction, Node, Scalar, Shared, Subquery};
use crate::plan::{Alias, ColumnRef, Field};

/// The column of FOR XML.
const COLUMN: &str = "XML_F52E2B61-18A1-11d1-B105-00805F49916B";

const TEXT: SqlType = SqlType::NVarChar(Length::Max);

impl Binder<'_> {
    /// The rows of a query as one document; the outermost query gives it in pieces, unless it is of
    /// type xml.
    #[inline(never)]
    pub(super) fn for_xml(
        &mut self,
        query: &ast::Query,
        xml: &ForXml,
        asked: Asked,
    ) -> Result<BoundQuery> {
        if let SetExpr::Select(select) = &query.body
            && select.into.is_some()
        {
            return Err(XmlError::NotAllowed { statement: "SELECT INTO" }.into());
        }
        if !xml.row.is_empty() {
            check_name("Row tag", &xml.row, &xml.row)?;
        }
        if let Some(root) = &xml.root {
            check_name("ROOT", root, root)?;
        }
        let bound = self.query_body(query, Asked { outermost: true, ..asked })?;
        let paths = paths(&bound.columns, !xml.row.is_empty())?;
        if xml.nil && xml.row.is_empty() && xml.root.is_none() {
            return Err(Error::feature("ELEMENTS XSINIL without an element for rows or a ROOT"));
        }
        let alias = self.fresh(Alias::Query);
        let mut args = vec![name(&xml.row)];
        for (at, column) in bound.columns.iter().enumerate() {
            let is_xml = column.ty == SqlType::Xml;
            args.extend([name(&column.name), flag(is_xml), column.of(alias, at)]);
        }
        // values of data() have blanks between them, from row to row too
        let data = |path: Option<&Path>| {
            path.is_some_and(|path| path.leaf == Leaf::Data && path.elements.is_empty())
        };
        let spaced = xml.row.is_empty() && data(paths.first()) && data(paths.last());
        let declares = xml.nil && xml.root.is_none();
        let row = Xml::Row { typed: xml.typed, nil: xml.nil, declares };
        let rows = Aggregate {
            function: AggregateFunction::Join,
            distinct: false,
            args: vec![call_of(Func::Xml(row), args), name(if spaced { " " } else { "" })],
            order: Vec::new(),
            over: None,
        };
        let rows = Scalar::new(TEXT, true, Node::Aggregate(Shared::new(rows)));
        let root = match &xml.root {
            Some(root) => name(root),
            None => Scalar::constant(TEXT, Value::Null),
        };
        let mut document = call_of(Func::Xml(Xml::Document { nil: xml.nil }), vec![rows, root]);
        if xml.typed {
            document.ty = SqlType::Xml;
        }
        let ty = document.ty;
        let from = Relation::Derived { query: Box::new(bound.query), alias };
        let mut query = one(document, Some(from));
        let pieces = asked.outermost && !xml.typed;
        if pieces {
            let document = Node::Query(Shared::new(Subquery::One(query)));
            let document = Scalar::new(TEXT, true, document);
            let text = call_of(Func::Json(Json::Pieces), vec![document]);
            let alias = self.fresh(Alias::Source);
            let piece = Scalar::column(TEXT, true, ColumnRef::of(alias, Field::Piece));
            query = one(piece, Some(Relation::Split { text, alias }));
        }
        let column = OutColumn {
            name: if pieces { COLUMN.to_owned() } else { String::new() },
            ty: if pieces { SqlType::NText } else { ty },
            nullable: true,
            generated: Generated::No,
            untyped: false,
            json: false,
            table: None,
            label: Label::Coercible,
        };
        Ok(BoundQuery::new(query, vec![column]))
    }

    /// `value` of xml: the text of all of it, or of the first text that no element is around.
    pub(super) fn xml_value(&mut self, args: &[ast::Expr]) -> Result<Scalar> {
        let [ast::Expr::Subquery(query), ast::Expr::Str(path, _)] = args else {
            return Err(Error::unsupported("value of other xml"));
        };
        let path: String = path.chars().filter(|c| !c.is_whitespace()).collect();
        let first = match path.as_str() {
            "." | "(.)[1]" | ".[1]" => false,
            "text()[1]" | "(text())[1]" | "./text()[1]" | "(./text())[1]" => true,
            _ => return Err(Error::feature(format!("the path '{path}' of value"))),
        };
        let document = self.scalar_subquery(query)?;
        Ok(call_of(Func::Xml(Xml::Text { first }), vec![document]))
    }
}

/// Checks that each column has its place in the element of a row.
fn paths(columns: &[OutColumn], row: bool) -> Result<Vec<Path>> {
    let mut paths: Vec<Path> = Vec::new();
    // the elements that are open, each with true if it has content; the first is the row
    let mut open: Vec<(String, bool)> = vec![(String::new(), false)];
    for column in columns {
        let path = Path::checked(&column.name)?;
        let same = |(own, element): &(&(String, bool), &String)| own.0 == **element;
        let common = open[1..].iter().zip(&path.elements).take_while(same).count();
        open.truncate(common + 1);
        for element in &path.elements[common..] {
            open.iter_mut().for_each(|(_, content)| *content = true);
            open.push((element.clone(), false));
        }
        let filled = open.last().is_some_and(|(_, content)| *content);
        match path.leaf {
            Leaf::Attribute(_) if open.len() == 1 && !row => {
                return Err(XmlError::NoRowTag {}.into());
            }
            Leaf::Attribute(_) if filled => {
                return Err(XmlError::LateAttribute { name: column.name.clone() }.into());
            }
            Leaf::Attribute(_) => {}
            Leaf::Text | Leaf::Data => open.iter_mut().for_each(|(_, content)| *content = true),
        }
        paths.push(path);
    }
    Ok(paths)
}
