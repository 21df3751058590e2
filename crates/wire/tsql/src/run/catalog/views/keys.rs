//! Indexes, keys, constraints.

use tdekit_wire_tds::Value;

use super::objects::object_row;
use super::{
    BIG, BIT, Columns, DESC, INT, LONG, NAME, Row, Source, TIME, TINY, View, bit, epoch, int, some,
    text,
};
use crate::plan::trigger::Trigger;
use crate::run::catalog::model::{Facts, Index, Rule, Trust};
use crate::run::catalog::types::type_facts;
use crate::value::Val;
use tdekit_wire_tds::SqlType;

pub(crate) const VIEWS: &[View] = &[
    View { name: "sys.indexes", columns: INDEXES, source: Source::Facts(indexes) },
    View { name: "sys.index_columns", columns: INDEX_COLUMNS, source: Source::Facts(columns) },
    View { name: "sys.key_constraints", columns: KEYS, source: Source::Facts(keys) },
    View { name: "sys.foreign_keys", columns: FOREIGN, source: Source::Facts(foreign) },
    View { name: "sys.foreign_key_columns", columns: PAIRS, source: Source::Facts(pairs) },
    View { name: "sys.check_constraints", columns: RULES, source: Source::Facts(checks) },
    View { name: "sys.default_constraints", columns: RULES, source: Source::Facts(defaults) },
    View { name: "sys.triggers", columns: TRIGGERS, source: Source::Facts(triggers) },
    View { name: "sys.sequences", columns: SEQUENCES, source: Source::Facts(sequences) },
];

const INDEXES: Columns = &[
    ("object_id", INT),
    ("name", NAME),
    ("index_id", INT),
    ("type", TINY),
    ("type_desc", DESC),
    ("is_unique", BIT),
    ("data_space_id", INT),
    ("ignore_dup_key", BIT),
    ("is_primary_key", BIT),
    ("is_unique_constraint", BIT),
    ("fill_factor", TINY),
    ("is_padded", BIT),
    ("is_disabled", BIT),
    ("is_hypothetical", BIT),
    ("allow_row_locks", BIT),
    ("allow_page_locks", BIT),
    ("has_filter", BIT),
    ("filter_definition", LONG),
];

fn shown(facts: &Facts, object: i64) -> bool {
    facts.object(object).is_some_and(|object| !object.hidden)
}

fn index_row(index: &Index) -> Row {
    let (kind, name) = match index.id {
        0 => (0, "HEAP"),
        1 => (1, "CLUSTERED"),
        _ => (2, "NONCLUSTERED"),
    };
    vec![
        int(index.object),
        index.name.clone().map_or(Value::Null, text),
        int(index.id),
        int(kind),
        text(name),
        bit(index.unique),
        int(1),
        bit(false),
        bit(index.primary),
        bit(index.constraint && !index.primary),
        int(0),
        bit(false),
        bit(false),
        bit(false),
        bit(true),
        bit(true),
        bit(index.filter.is_some()),
        index.filter.as_deref().map_or(Value::Null, readable),
    ]
}

fn indexes(facts: &Facts) -> Vec<Row> {
    facts.indexes.iter().filter(|index| shown(facts, index.object)).map(index_row).collect()
}

const INDEX_COLUMNS: Columns = &[
    ("object_id", INT),
    ("index_id", INT),
    ("index_column_id", INT),
    ("column_id", INT),
    ("key_ordinal", TINY),
    ("partition_ordinal", TINY),
    ("is_descending_key", BIT),
    ("is_included_column", BIT),
];

fn columns(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for index in facts.indexes.iter().filter(|index| shown(facts, index.object)) {
        let key = index.columns.iter().map(|(column, down)| (*column, *down, false));
        let included = index.included.iter().map(|column| (*column, false, true));
        for (at, (column, descending, included)) in (1..).zip(key.chain(included)) {
            rows.push(vec![
                int(index.object),
                int(index.id),
                int(at),
                int(column),
                int(if included { 0 } else { at }),
                int(0),
                bit(descending),
                bit(included),
            ]);
        }
    }
    rows
}

const KEYS: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
    ("unique_index_id", INT),
    ("is_system_named", BIT),
];

fn keys(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for index in facts.indexes.iter().filter(|index| index.constraint) {
        let object = facts.objects.iter().find(|object| {
            object.parent == index.object
                && !object.hidden
                && matches!(object.kind, "PK" | "UQ")
                && index.name.as_ref() == Some(&object.name)
        });
        if let Some(object) = object {
            let mut row = object_row(object);
            row.extend([int(index.id), bit(system_named(&object.name))]);
            rows.push(row);
        }
    }
    rows
}

fn system_named(name: &str) -> bool {
    name.split_once("__").is_some_and(|(kind, _)| matches!(kind, "PK" | "UQ" | "FK" | "CK" | "DF"))
}

const FOREIGN: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
    ("referenced_object_id", INT),
    ("key_index_id", INT),
    ("is_disabled", BIT),
    ("is_not_for_replication", BIT),
    ("is_not_trusted", BIT),
    ("delete_referential_action", TINY),
    ("delete_referential_action_desc", DESC),
    ("update_referential_action", TINY),
    ("update_referential_action_desc", DESC),
    ("is_system_named", BIT),
];

fn action(action: &str) -> (i64, &'static str) {
    match action {
        "CASCADE" => (1, "CASCADE"),
        "SET NULL" => (2, "SET_NULL"),
        "SET DEFAULT" => (3, "SET_DEFAULT"),
        _ => (0, "NO_ACTION"),
    }
}

fn foreign(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for key in &facts.foreign_keys {
        let Some(object) = facts.object(key.id) else { continue };
        let there: Vec<i64> = key.columns.iter().map(|(_, there)| *there).collect();
        let index = facts.indexes.iter().find(|index| {
            index.object == key.parent
                && index.columns.iter().map(|(column, _)| column).eq(there.iter())
        });
        let (delete, update) = (action(&key.on_delete), action(&key.on_update));
        let mut row = object_row(object);
        row.extend([
            int(key.parent),
            int(index.map_or(1, |index| index.id)),
            bit(key.trust == Trust::Disabled),
            bit(false),
            bit(key.trust != Trust::Full),
            int(delete.0),
            text(delete.1),
            int(update.0),
            text(update.1),
            bit(system_named(&key.name)),
        ]);
        rows.push(row);
    }
    rows
}

const PAIRS: Columns = &[
    ("constraint_object_id", INT),
    ("constraint_column_id", INT),
    ("parent_object_id", INT),
    ("parent_column_id", INT),
    ("referenced_object_id", INT),
    ("referenced_column_id", INT),
];

fn pairs(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for key in &facts.foreign_keys {
        let mut at = 0;
        for (here, there) in &key.columns {
            at += 1;
            let ids = [key.id, at, key.object, *here, key.parent, *there];
            rows.push(ids.into_iter().map(int).collect());
        }
    }
    rows
}

const RULES: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
    ("parent_column_id", INT),
    ("definition", LONG),
    ("is_system_named", BIT),
    ("is_disabled", BIT),
    ("is_not_trusted", BIT),
];

/// A definition; NULL for one that the caller may not read.
pub(super) fn readable(definition: &str) -> Val {
    match definition {
        "" => Value::Null,
        readable => text(readable),
    }
}

fn rules(facts: &Facts, rules: &[Rule]) -> Vec<Row> {
    let mut rows = Vec::new();
    for rule in rules.iter().filter(|rule| shown(facts, rule.object)) {
        let Some(object) = facts.object(rule.id) else { continue };
        let mut row = object_row(object);
        row.extend([
            int(rule.column),
            readable(&rule.text),
            bit(system_named(&rule.name)),
            bit(rule.trust == Trust::Disabled),
            bit(rule.trust != Trust::Full),
        ]);
        rows.push(row);
    }
    rows
}

fn checks(facts: &Facts) -> Vec<Row> {
    rules(facts, &facts.checks)
}

fn defaults(facts: &Facts) -> Vec<Row> {
    rules(facts, &facts.defaults)
}

const TRIGGERS: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("parent_class", TINY),
    ("parent_class_desc", DESC),
    ("parent_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_disabled", BIT),
    ("is_not_for_replication", BIT),
    ("is_instead_of_trigger", BIT),
];

fn triggers(facts: &Facts) -> Vec<Row> {
    let row = |(id, trigger): &(i64, Trigger)| {
        let object = facts.object(*id)?;
        Some(vec![
            text(object.name.clone()),
            int(object.id),
            int(1),
            text("OBJECT_OR_COLUMN"),
            int(object.parent),
            text("TR"),
            text("SQL_TRIGGER"),
            epoch(),
            epoch(),
            bit(false),
            bit(trigger.disabled),
            bit(false),
            bit(trigger.instead),
        ])
    };
    facts.triggers.iter().filter_map(row).collect()
}

const SEQUENCES: Columns = &[
    ("name", NAME),
    ("object_id", INT),
    ("principal_id", INT),
    ("schema_id", INT),
    ("parent_object_id", INT),
    ("type", SqlType::Char(2)),
    ("type_desc", DESC),
    ("create_date", TIME),
    ("modify_date", TIME),
    ("is_ms_shipped", BIT),
    ("is_published", BIT),
    ("is_schema_published", BIT),
    ("start_value", BIG),
    ("increment", BIG),
    ("minimum_value", BIG),
    ("maximum_value", BIG),
    ("is_cycling", BIT),
    ("is_cached", BIT),
    ("cache_size", INT),
    ("system_type_id", TINY),
    ("user_type_id", INT),
    ("precision", TINY),
    ("scale", TINY),
    ("current_value", BIG),
    ("is_exhausted", BIT),
    ("last_used_value", BIG),
];

fn sequences(facts: &Facts) -> Vec<Row> {
    let mut rows = Vec::new();
    for (id, sequence) in &facts.sequences {
        let Some(object) = facts.object(*id) else { continue };
        let (type_id, _, precision, scale) = type_facts(sequence.ty);
        let mut row = object_row(object);
        row.extend([
            int(sequence.start),
            int(sequence.rule.step),
            int(sequence.rule.minimum),
            int(sequence.rule.maximum),
            bit(sequence.rule.cycle),
            bit(sequence.cache.is_some()),
            some(sequence.cache.flatten()),
            int(type_id),
            int(type_id),
            int(precision),
            int(scale),
            int(sequence.last.unwrap_or(sequence.base)),
            bit(sequence.next().is_none()),
            some(sequence.last),
        ]);
        rows.push(row);
    }
    rows
}
