//! How a case of many columns is taken apart.

use crate::expressions::{from, items};

#[test]
fn expressions_end_at_commas_outside_of_brackets_and_texts() {
    let query =
        r"SELECT id, f(a, ',') AS x, 'it\'s, FROM ' AS y, extract(DAY FROM d) AS z FROM events";
    let found = items(query).unwrap();
    assert_eq!(
        found,
        [
            "id",
            "f(a, ',') AS x",
            r"'it\'s, FROM ' AS y",
            "extract(DAY FROM d) AS z"
        ]
    );
    assert_eq!(&query[from(query).unwrap()..], "FROM events");
    assert_eq!(items("WITH x AS (SELECT 1) SELECT * FROM x"), None);
}
