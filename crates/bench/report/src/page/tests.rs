use super::checks::{harmless, pointed};
use super::*;
use crate::examples::{example, holds, two_algorithms, whole};
use crate::format::{interval, percent};
use crate::json::from_json;
use crate::model::{Metric, StatementInfo};
use crate::results::Results;

fn embedded(page: &str) -> Results {
    let start = page.find("id=\"results\">").unwrap() + "id=\"results\">".len();
    let end = start + page[start..].find("</script>").unwrap();
    from_json(&page[start..end]).unwrap()
}

#[test]
fn the_page_holds_the_documents_numbers() {
    let results = example();
    let page = html(&results).unwrap();
    let summary = &results.embedded.as_ref().unwrap().summary;
    let found = summary.comparison("crud/4-3-3", Metric::Cpu, "encrypted", "base");
    let found = found.unwrap();
    let ends = found.low.zip(found.high).map(|(low, high)| [low, high]);
    holds(&page, [&percent(found.ratio), &interval(ends), &percent(1.0636), &results.command]);
    assert_eq!(embedded(&page), results);
    // The carried document is the results file, its verdict included.
    assert!(page.contains("\"verdict\":[\"Encryption costs 10 % of elapsed time"));
}

/// Every place to which a number or a name refers is in the document, every link target in the
/// page.
#[test]
fn every_pointer_and_link_leads_somewhere() {
    let mut results = whole();
    results.warnings.push("load average 7".to_owned());
    let page = html(&results).unwrap();
    assert!(pointed(&page, &serde_json::to_value(&results).unwrap()) > 200);
    harmless(&page);
    holds(&page, ["href=\"#backup\"", "href=\"#messages\"", "href=\"#peers\""]);
}

#[test]
fn a_further_algorithm_stands_beside_the_first() {
    let results = two_algorithms(0.92);
    let page = html(&results).unwrap();
    pointed(&page, &serde_json::to_value(&results).unwrap());
    holds(&page, ["Cheaper here: ", "href=\"#peers\"", ">second<"]);
    let mut alone = two_algorithms(0.92);
    let report = alone.embedded.as_mut().unwrap();
    report.sides.retain(|side| !side.id.starts_with("peer"));
    crate::summarize(&mut alone);
    assert!(html(&alone).unwrap().contains("href=\"#peers\""));
}

#[test]
fn names_from_a_database_cannot_break_the_page() {
    let mut results = example();
    results.subject.label = "</script><script>alert(1)</script>.db".to_owned();
    let report = results.embedded.as_mut().unwrap();
    report.statements.push(StatementInfo {
        index: 0,
        operation: "select".to_owned(),
        what: "<b>".to_owned(),
        sql: "SELECT * FROM \"</code><img src=x>\"".to_owned(),
        variants: 1,
    });
    report.cells[0].label = "<text><i>".to_owned();
    let page = html(&results).unwrap();
    assert!(!page.contains("<script>alert") && !page.contains("<img src=x>"));
    assert!(!page.contains("<i>"));
    assert_eq!(page.matches("</script>").count(), 1);
}

#[test]
fn backups_alone_are_a_page() {
    let mut results = example();
    results.embedded = None;
    results.backup = Some(crate::examples::backup());
    let page = html(&results).unwrap();
    assert!(page.contains("id=\"backup\"") && !page.contains("id=\"overhead\""));
}

/// A reader sees answer, chart and published figures first; what explains them is folded.
#[test]
fn what_explains_the_figures_is_folded() {
    let page = html(&example()).unwrap();
    let place = |wanted: &str| page.find(wanted).unwrap_or_else(|| panic!("{wanted}"));
    let order = ["<h1>", "class=\"facts\"", "id=\"overhead\"", "id=\"published\"", "<nav"];
    assert!(order.map(place).is_sorted());
    let several = html(&whole()).unwrap();
    for id in ["oltp", "messages", "backup"] {
        let fold = format!("<section id=\"{id}\"><details><summary><h2>");
        assert!(several.contains(&fold), "{id}");
    }
    for id in ["volumes", "environment", "method"] {
        assert!(page.contains(&format!("<section id=\"{id}\"><details><summary><h2>")), "{id}");
    }
    holds(&page, ["The axis is logarithmic", "6</span> in <span"]);
    assert!(!STYLE.contains("details-content"), "closed folds are not printed");
}
