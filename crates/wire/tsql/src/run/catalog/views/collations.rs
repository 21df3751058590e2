//! The rows for `fn_helpcollations`.

use tdekit_wire_tds::{Collation, Length, SqlType};

use super::{Columns, NAME, Row, Server, Source, View, text};

pub(crate) const VIEWS: &[View] =
    &[View { name: "sys.~fn_helpcollations", columns: COLUMNS, source: Source::Server(all) }];

const COLUMNS: Columns = &[("name", NAME), ("description", SqlType::NVarChar(Length::Of(1000)))];

fn all(_: &Server) -> Vec<Row> {
    let mut rows: Vec<_> = Collation::all().map(|known| (known.name(), known)).collect();
    rows.sort_by(|(a, _), (b, _)| a.cmp(b));
    rows.into_iter().map(|(name, known)| vec![text(name), text(known.description())]).collect()
}
