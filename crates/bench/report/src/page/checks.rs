//! Checks shared by the tests of every page.

use super::STYLE;

/// Counts the places to which a page's numbers and names refer; each must be in the document.
pub(super) fn pointed(page: &str, document: &serde_json::Value) -> usize {
    let mut count = 0;
    let places = ["from", "per", "by", "more", "plus", "counted"];
    for attribute in places.map(|name| format!("data-{name}=\"")) {
        for rest in page.split(&attribute).skip(1) {
            let pointer = rest.split('"').next().unwrap();
            assert!(document.pointer(&format!("/{pointer}")).is_some(), "{pointer}");
            count += 1;
        }
    }
    count
}

/// Checks that the page loads and runs nothing, and that its links have targets.
pub(super) fn harmless(page: &str) {
    assert!(page.contains("default-src 'none'") && !page.contains("script-src"));
    assert_eq!(page.matches("<script").count(), 1);
    for outside in ["http://", "https://", "src=", "@import", "url(", " onclick", " onload"] {
        let tags = page.split('<').filter_map(|rest| rest.split_once('>')).map(|(tag, _)| tag);
        let mut found = tags.filter(|tag| tag.contains(outside) && !tag.contains("aria-label"));
        assert_eq!(found.next(), None, "{outside}");
    }
    for link in page.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        let Some(id) = link.strip_prefix('#') else {
            assert_eq!(link, "data:,");
            continue;
        };
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id}");
    }
    assert!(page.contains(STYLE) && STYLE.contains("prefers-color-scheme: dark"));
    assert!(!STYLE.contains("url("));
}
