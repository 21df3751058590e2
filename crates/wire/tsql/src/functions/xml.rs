//! The texts of FOR XML PATH, and of the method `value`.

use std::fmt::Write as _;

use base64::Engine;
use tdekit_wire_tds::messages::XmlError;
use tdekit_wire_tds::{SqlType, Value};

use super::json;
use crate::error::Result;
use crate::plan::func::Xml;
use crate::plan::scalar::Scalar;
use crate::value::{affordable, bulk_bytes};

/// The declaration that `xsi:nil` needs.
const XSI: &str = " xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"";

/// The place of a column in the element of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Path {
    pub(crate) elements: Vec<String>,
    pub(crate) leaf: Leaf,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Leaf {
    Attribute(String),
    Text,
    /// `data()`: text with blanks between values.
    Data,
}

impl Path {
    /// Reads a column's name: `a/b`, `a/@b`, `text()`, or nothing.
    pub(crate) fn of(name: &str) -> Path {
        let mut elements: Vec<String> = name.split('/').map(str::to_owned).collect();
        let last = elements.pop().unwrap_or_default();
        let leaf = match last.as_str() {
            "" | "*" | "text()" | "node()" => Leaf::Text,
            "data()" => Leaf::Data,
            _ => match last.strip_prefix('@') {
                Some(attribute) => Leaf::Attribute(attribute.to_owned()),
                None => {
                    elements.push(last);
                    Leaf::Text
                }
            },
        };
        Path { elements, leaf }
    }

    /// As [`Path::of`].
    ///
    /// # Errors
    /// 6850 for what is no name of XML.
    pub(crate) fn checked(name: &str) -> Result<Path> {
        const KIND: &str = "Column name";
        let path = Path::of(name);
        if name.ends_with('/') {
            return Err(bad_name(KIND, name, '/'));
        }
        for element in &path.elements {
            check_name(KIND, name, element)?;
        }
        if let Leaf::Attribute(attribute) = &path.leaf {
            check_name(KIND, name, attribute)?;
        }
        Ok(path)
    }
}

fn bad_name(kind: &'static str, name: &str, fault: char) -> crate::error::Error {
    XmlError::BadName { kind, name: name.to_owned(), fault, code: u32::from(fault) }.into()
}

/// Checks that a part of a name is one of XML.
///
/// # Errors
/// 6850.
pub(crate) fn check_name(kind: &'static str, whole: &str, part: &str) -> Result<()> {
    let first = |c: char| c.is_alphabetic() || c == '_';
    let mut chars = part.chars();
    let fault = match chars.next() {
        None => Some('/'),
        Some(c) if !first(c) => Some(c),
        Some(_) => {
            chars.find(|c| !(first(*c) || c.is_numeric() || matches!(c, '-' | '.' | '\u{b7}')))
        }
    };
    fault.map_or(Ok(()), |fault| Err(bad_name(kind, whole, fault)))
}

pub(super) fn compute(func: Xml, values: &[Value<'_>], args: &[Scalar]) -> Result<Value<'static>> {
    let given = values.iter().map(bulk_bytes).fold(0, usize::saturating_add);
    affordable(given.saturating_mul(6))?;
    let made = match (func, values.first(), values.get(1)) {
        (Xml::Row { typed, nil, declares }, Some(Value::Text(tag)), _) => {
            let mut writer = Writer { typed, ..Writer::default() };
            if !tag.is_empty() {
                writer.start(tag);
                writer.out.push_str(if declares { XSI } else { "" });
            }
            for (values, args) in values[1..].chunks(3).zip(args[1..].chunks(3)) {
                if let ([Value::Text(name), xml, value], [_, _, arg]) = (values, args) {
                    let xml = *xml == Value::Bit(true);
                    writer.column(name, xml, (value, arg.ty), nil)?;
                }
            }
            let out = writer.ended(tag);
            Some(out).filter(|out| !out.is_empty())
        }
        (Xml::Document { nil }, Some(Value::Text(rows)), Some(Value::Text(root))) => {
            Some(format!("<{root}{}>{rows}</{root}>", if nil { XSI } else { "" }))
        }
        (Xml::Document { .. }, Some(Value::Text(rows)), _) => Some(rows.to_string()),
        (Xml::Text { first }, Some(Value::Text(document)), _) => text_of(document, first),
        _ => None,
    };
    Ok(made.map_or(Value::Null, |text| Value::Text(text.into())))
}

/// Writes the element of a row.
#[derive(Debug, Default)]
struct Writer {
    out: String,
    /// TYPE: an element without content is written as one.
    typed: bool,
    /// The elements that are open.
    open: Vec<String>,
    /// The last start tag has no end yet: attributes may follow.
    pending: bool,
    /// The last thing is a value of `data()`.
    data: bool,
}

impl Writer {
    fn start(&mut self, name: &str) {
        self.content();
        self.out.push('<');
        self.out.push_str(name);
        self.pending = true;
    }

    fn content(&mut self) {
        if std::mem::take(&mut self.pending) {
            self.out.push('>');
        }
    }

    fn end(&mut self, name: &str) {
        match std::mem::take(&mut self.pending) {
            true => self.out.push_str("/>"),
            false => self.out.extend(["</", name, ">"]),
        }
    }

    fn close(&mut self, keep: usize) {
        while self.open.len() > keep {
            if let Some(name) = self.open.pop() {
                self.end(&name);
            }
        }
    }

    fn ended(mut self, tag: &str) -> String {
        self.close(0);
        if !tag.is_empty() {
            self.end(tag);
        }
        self.out
    }

    fn column(
        &mut self,
        name: &str,
        xml: bool,
        (value, ty): (&Value<'_>, SqlType),
        nil: bool,
    ) -> Result<()> {
        let Path { elements, leaf } = Path::of(name);
        let element = leaf == Leaf::Text && !elements.is_empty() && !name.ends_with(')');
        if *value == Value::Null && !(nil && element) {
            return Ok(());
        }
        let common = self.open.iter().zip(&elements).take_while(|(a, b)| a == b).count();
        let moved = common < self.open.len() || common < elements.len();
        self.close(common);
        for element in elements.into_iter().skip(common) {
            self.start(&element);
            self.open.push(element);
        }
        let after = std::mem::replace(&mut self.data, leaf == Leaf::Data) && !moved;
        if *value == Value::Null {
            if self.pending {
                self.out.push_str(" xsi:nil=\"true\"");
            }
            return Ok(());
        }
        let text = text(value, ty)?;
        match &leaf {
            Leaf::Attribute(attribute) => {
                self.out.extend([" ", attribute, "=\""]);
                self.escaped(&text, true, attribute)?;
                self.out.push('"');
            }
            _ if text.is_empty() && self.typed => {}
            _ => {
                self.content();
                if after && leaf == Leaf::Data {
                    self.out.push(' ');
                }
                match xml {
                    true => self.out.push_str(&text),
                    false => self.escaped(&text, false, name)?,
                }
            }
        }
        Ok(())
    }

    /// # Errors
    /// 6841 with TYPE, for a character that XML has not.
    fn escaped(&mut self, text: &str, attribute: bool, node: &str) -> Result<()> {
        for c in text.chars() {
            match c {
                '&' => self.out.push_str("&amp;"),
                '<' => self.out.push_str("&lt;"),
                '>' => self.out.push_str("&gt;"),
                '"' if attribute => self.out.push_str("&quot;"),
                '\r' => self.out.push_str("&#x0D;"),
                '\n' | '\t' if !attribute => self.out.push(c),
                '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                    let allowed = matches!(c, '\n' | '\t');
                    if self.typed && !allowed {
                        let (name, code) = (node.to_owned(), u32::from(c));
                        return Err(XmlError::BadCharacter { name, code }.into());
                    }
                    let _ = write!(self.out, "&#x{:02X};", u32::from(c));
                }
                c => self.out.push(c),
            }
        }
        Ok(())
    }
}

/// A value as FOR XML writes it, without its references.
fn text(value: &Value<'_>, ty: SqlType) -> Result<String> {
    Ok(match value {
        Value::Variant(variant) => return text(&variant.value, variant.ty),
        Value::Text(text) => text.to_string(),
        Value::Bit(bit) => u8::from(*bit).to_string(),
        Value::Int(int) => int.to_string(),
        Value::Binary(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes),
        _ => json::plain(value, ty)?,
    })
}

/// The text of a document that FOR XML has made, without its elements; with `first`, the first one
/// that no element is around.
fn text_of(document: &str, first: bool) -> Option<String> {
    let mut text = String::new();
    let mut depth = 0_usize;
    let mut rest = document;
    while let Some(c) = rest.chars().next() {
        if c == '<' {
            if first && depth == 0 && !text.is_empty() {
                break;
            }
            let end = rest.find('>').map_or(rest.len(), |end| end + 1);
            let tag = &rest[..end];
            if tag.starts_with("</") {
                depth = depth.saturating_sub(1);
            } else if !tag.ends_with("/>") {
                depth += 1;
            }
            rest = &rest[end..];
            continue;
        }
        let (decoded, taken) = match c {
            '&' => reference(rest),
            c => (c, c.len_utf8()),
        };
        if !first || depth == 0 {
            text.push(decoded);
        }
        rest = &rest[taken..];
    }
    if first && text.is_empty() { None } else { Some(text) }
}

/// The character of a reference at the start of a text, and the reference's length.
fn reference(text: &str) -> (char, usize) {
    let Some(end) = text.find(';') else { return ('&', 1) };
    let name = &text[1..end];
    let c = match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        _ => name
            .strip_prefix("#x")
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .and_then(char::from_u32),
    };
    c.map_or(('&', 1), |c| (c, end + 1))
}
