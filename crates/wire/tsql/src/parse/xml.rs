//! FOR XML, and the method `value` of what it gives.

use super::Parser;
use super::expr::call;
use crate::ast::document::ForXml;
use crate::ast::{Expr, Name, Query};
use crate::error::{Error, Result};
use crate::lex::Tok;

/// The name of the function that `value` is.
pub(crate) const XML_VALUE: &str = "XML VALUE";

impl Parser<'_> {
    /// `PATH ..`, behind FOR XML.
    pub(super) fn for_xml(&mut self) -> Result<ForXml> {
        if !self.eat("PATH") {
            let mode = self.word()?;
            return Err(Error::unsupported(format!("FOR XML {mode}")));
        }
        let row = self.xml_name("row")?;
        let mut xml = ForXml { row, root: None, typed: false, nil: false };
        while self.eat_op(",") {
            match self.word()?.as_str() {
                "TYPE" => xml.typed = true,
                "ROOT" => xml.root = Some(self.xml_name("root")?),
                "ELEMENTS" => {
                    xml.nil |= self.eat("XSINIL");
                    self.eat("ABSENT");
                }
                "BINARY" => self.expect("BASE64")?,
                word @ ("XMLDATA" | "XMLSCHEMA") => {
                    return Err(Error::unsupported(format!("FOR XML PATH, {word}")));
                }
                word => return Err(Error::Syntax { near: word.to_owned() }),
            }
        }
        Ok(xml)
    }

    /// A name in brackets, or the one that stands for none.
    fn xml_name(&mut self, otherwise: &str) -> Result<String> {
        if !self.eat_op("(") {
            return Ok(otherwise.to_owned());
        }
        let name = self.string()?;
        self.expect_op(")")?;
        Ok(name)
    }

    /// `.value('.', 'type')` behind a query with TYPE; None for what has no method.
    pub(super) fn xml_method(&mut self, query: Query) -> Result<Expr> {
        let typed = query.xml.as_ref().is_some_and(|xml| xml.typed);
        let query = Expr::Subquery(Box::new(query));
        if !typed || !self.is_op(".") {
            return Ok(query);
        }
        self.advance();
        // names of methods count in lower case alone
        if !matches!(self.tok(), Tok::Word(word) if word == "value") {
            return Err(Error::unsupported("methods of xml other than value"));
        }
        self.advance();
        self.expect_op("(")?;
        let path = self.string()?;
        self.expect_op(",")?;
        let ty = super::parse_type(&self.string()?)?;
        self.expect_op(")")?;
        self.height = 3;
        let value = call(Name(vec![XML_VALUE.to_owned()]), vec![query, Expr::Str(path, true)]);
        Ok(Expr::Convert(Box::new(value), ty, None, false))
    }
}
