//! A catalog as a login sees it: the objects on which it has a right, and the texts of those whose
//! definition it may read.

use super::{On, Rights};
use crate::plan::table::Filled;
use crate::run::catalog::model::{Facts, Object, object_id};

/// A catalog from which things can be hidden.
pub(crate) trait Hidden {
    /// Removes what the login may not see.
    fn hide(&mut self, rights: &Rights);
}

fn thing(object: &Object) -> On {
    match object.schema.eq_ignore_ascii_case("dbo") {
        true => On::object(&object.name),
        false => On::object(&format!("{}.{}", object.schema, object.name)),
    }
}

impl Hidden for Facts {
    fn hide(&mut self, rights: &Rights) {
        if rights.all {
            return;
        }
        self.types.retain(|own| rights.sees(&On::user_type(&own.stored), false));
        let types = &self.types;
        let own = |object: &Object| {
            let of_type = || types.iter().any(|own| own.table == object.id);
            object.hidden || object.name.starts_with('#') || object.kind == "TT" && of_type()
        };
        let tops = self.objects.iter().filter(|object| object.parent == 0);
        let sees =
            |object: &&Object| own(object) || rights.sees(&thing(object), object.kind != "P");
        let seen: Vec<&Object> = tops.filter(sees).collect();
        let readable = seen
            .iter()
            .filter(|object| own(object) || rights.reads_text(&thing(object), object.kind != "P"));
        let texts: Vec<i64> = readable.map(|object| object.id).collect();
        let ids: Vec<i64> = seen.iter().map(|object| object.id).collect();
        let (sees, reads) = (|id: i64| ids.contains(&id), |id: i64| texts.contains(&id));
        self.objects.retain(|object| match object.parent {
            0 => sees(object.id),
            parent => sees(parent),
        });
        let unread = |object: &&mut Object| !reads(object.id) && !reads(object.parent);
        for object in self.objects.iter_mut().filter(unread) {
            object.text = None;
        }
        self.columns.retain(|column| sees(column.object));
        for column in self.columns.iter_mut().filter(|column| !reads(column.object)) {
            column.column.default = None;
            if let Filled::Computed { text, .. } = &mut column.column.filled {
                text.clear();
            }
        }
        self.indexes.retain(|index| sees(index.object));
        for index in self.indexes.iter_mut().filter(|index| !reads(index.object)) {
            index.filter = index.filter.take().map(|_| String::new());
        }
        self.foreign_keys.retain(|key| sees(key.object));
        for rules in [&mut self.checks, &mut self.defaults] {
            rules.retain(|rule| sees(rule.object));
            for rule in rules.iter_mut().filter(|rule| !reads(rule.object)) {
                rule.text.clear();
            }
        }
        self.parameters.retain(|parameter| sees(parameter.object));
        self.sequences.retain(|(id, _)| sees(*id));
        self.aliases.retain(|(object, ..)| sees(*object));
        self.triggers.retain(|(_, trigger)| sees(object_id(&trigger.table)));
    }
}
