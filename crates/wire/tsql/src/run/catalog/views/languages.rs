//! `sys.syslanguages`: the languages of SET LANGUAGE.

use tdekit_wire_tds::{Length, SqlType};

use super::{Columns, INT, NAME, Row, SMALL, Server, Source, TINY, View, int, text};
use crate::value::language::{ALL, Language};

pub(crate) const VIEWS: &[View] =
    &[View { name: "sys.syslanguages", columns: COLUMNS, source: Source::Server(all) }];

const COLUMNS: Columns = &[
    ("langid", SMALL),
    ("dateformat", SqlType::NChar(3)),
    ("datefirst", TINY),
    ("upgrade", INT),
    ("name", NAME),
    ("alias", NAME),
    ("months", SqlType::NVarChar(Length::Of(372))),
    ("shortmonths", SqlType::NVarChar(Length::Of(132))),
    ("days", SqlType::NVarChar(Length::Of(217))),
    ("lcid", INT),
    ("msglangid", SMALL),
];

fn all(_: &Server) -> Vec<Row> {
    ALL.iter().map(row).collect()
}

fn row(language: &Language) -> Row {
    let lists = language.lists();
    vec![
        int(language.id),
        text(language.order.name()),
        int(language.first),
        int(0),
        text(language.name),
        text(language.alias),
        text(lists.months),
        text(lists.short_months),
        text(lists.days),
        int(language.lcid),
        int(language.messages),
    ]
}
