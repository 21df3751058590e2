use super::*;
use crate::format::{interval, percent};
use crate::json::{from_json, tests::example};
use crate::model::{Metric, Results, StatementInfo};

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
    for wanted in [
        percent(found.ratio),
        interval(found.low, found.high),
        percent(1.0636),
        results.command.clone(),
    ] {
        assert!(page.contains(&wanted), "{wanted}");
    }
    assert_eq!(embedded(&page), results);
}

/// Every place that a number or a name points to is in the document.
#[test]
fn every_pointer_leads_somewhere() {
    let mut results = example();
    results.backup = Some(crate::examples::backup());
    results.oltp = Some(crate::examples::oltp());
    results.messages = Some(crate::examples::messages_with_everything());
    results.warnings.push("load average 7".to_owned());
    let document = serde_json::to_value(&results).unwrap();
    let page = html(&results).unwrap();
    let mut count = 0;
    for attribute in ["data-from=\"", "data-per=\""] {
        for rest in page.split(attribute).skip(1) {
            let pointer = rest.split('"').next().unwrap();
            assert!(document.pointer(&format!("/{pointer}")).is_some(), "{pointer}");
            count += 1;
        }
    }
    assert!(count > 200, "{count}");
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
fn the_page_fetches_and_runs_nothing() {
    let page = html(&example()).unwrap();
    for outside in ["http://", "https://", "src=", "@import", "url(", " onclick", " onload"] {
        let tags = page.split('<').filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag);
        let mut found = tags.filter(|tag| tag.contains(outside) && !tag.contains("aria-label"));
        assert_eq!(found.next(), None, "{outside}");
    }
    for link in page.split("href=\"").skip(1) {
        assert!(link.starts_with('#') || link.starts_with("data:,\""), "{link:.40}");
    }
    assert!(page.contains("default-src 'none'") && !page.contains("script-src"));
    assert_eq!(page.matches("<script").count(), 1);
    assert!(STYLE.contains("prefers-color-scheme: dark") && !STYLE.contains("url("));
}

#[test]
fn contents_link_to_sections_that_are_there() {
    let mut results = example();
    results.backup = Some(crate::examples::backup());
    results.oltp = Some(crate::examples::oltp());
    results.messages = Some(crate::examples::messages());
    let page = html(&results).unwrap();
    let links: Vec<&str> =
        page.split("href=\"#").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(links.contains(&"backup") && links.contains(&"peers"), "{links:?}");
    for link in links {
        assert_eq!(page.matches(&format!("id=\"{link}\"")).count(), 1, "{link}");
    }
}

#[test]
fn backups_alone_are_a_page() {
    let mut results = example();
    results.embedded = None;
    results.backup = Some(crate::examples::backup());
    let page = html(&results).unwrap();
    assert!(page.contains("id=\"backup\"") && !page.contains("id=\"overhead\""));
}
