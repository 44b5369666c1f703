//! What CSV files look like.

use super::*;

#[test]
fn csv_quotes_only_where_needed_and_tells_null_from_empty() {
    let rows = batch(vec![
        ("id", Arc::new(Int32Array::from(vec![1, 2, 3, 4, 5, 6]))),
        (
            "s",
            strings(&[
                Some("plain text"),
                Some("a,b"),
                Some("say \"hi\""),
                Some(""),
                None,
                Some(" lead\nnext "),
            ]),
        ),
    ]);
    assert_eq!(
        encode(&format("csv", &[("header", "true")]), &rows),
        "id,s\n1,plain text\n2,\"a,b\"\n3,\"say \\\"hi\\\"\"\n4,\"\"\n5,\n6,\" lead\nnext \"\n"
    );
}

#[test]
fn csv_escape_option_decides_how_quotes_are_written() {
    let rows = batch(vec![
        ("a", strings(&[Some("a\\\"b")])),
        ("b", strings(&[Some("C:\\dir\\")])),
    ]);
    for (options, expected) in [
        (&[][..], "\"a\\\\\\\"b\",C:\\dir\\\n"),
        (&[("escape", "\"")], "\"a\\\"\"b\",C:\\dir\\\n"),
        (&[("escape", "")], "\"a\\\"\"b\",C:\\dir\\\n"),
        (&[("escape", "|")], "\"a\\|\"b\",C:\\dir\\\n"),
    ] {
        assert_eq!(encode(&format("csv", options), &rows), expected);
    }
}

#[test]
fn csv_options_change_separator_nulls_and_quotes() {
    let rows = batch(vec![
        ("d", Arc::new(Date32Array::from(vec![Some(0), None]))),
        ("s", strings(&[Some("x;y-z"), Some("")])),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
    ]);
    let options = [
        ("sep", "-"),
        ("nullValue", "NULL"),
        ("quote", "'"),
        ("emptyValue", "EMPTY"),
    ];
    assert_eq!(
        encode(&format("csv", &options), &rows),
        "'1970-01-01'-'x;y-z'-true\nNULL-EMPTY-NULL\n"
    );
    let all = encode(
        &format("csv", &[("quoteAll", "true"), ("delimiter", "\\t")]),
        &rows,
    );
    assert_eq!(all, "\"1970-01-01\"\t\"x;y-z\"\t\"true\"\n\t\"\"\t\n");
}

#[test]
fn csv_single_column_never_leaves_a_blank_line() {
    let rows = batch(vec![(
        "s",
        strings(&[None, Some(""), Some("  "), Some("x")]),
    )]);
    assert_eq!(
        encode(&format("csv", &[]), &rows),
        "\"\"\n\"\"\n\"  \"\nx\n"
    );
}

#[test]
fn csv_value_that_cannot_be_stored_is_an_error() {
    let rows = batch(vec![("s", strings(&[Some("a,b")]))]);
    let error = try_encode(&format("csv", &[("quote", "")]), &[rows]).unwrap_err();
    assert!(error.to_string().contains("column 's'"), "{error}");
    let rows = batch(vec![(
        "bin",
        Arc::new(BinaryArray::from(vec![&b"\xff"[..]])) as ArrayRef,
    )]);
    let error = try_encode(&format("csv", &[]), &[rows]).unwrap_err();
    assert!(error.to_string().contains("UTF-8"), "{error}");
}

#[test]
fn csv_separator_of_several_characters_quotes_what_could_be_taken_for_it() {
    let rows = batch(vec![
        ("a", strings(&[Some("x|"), Some("y||z"), Some("plain")])),
        ("b", strings(&[Some("|x"), None, Some("")])),
    ]);
    assert_eq!(
        encode(&format("csv", &[("sep", "||"), ("header", "true")]), &rows),
        "a||b\n\"x|\"||\"|x\"\n\"y||z\"||\nplain||\"\"\n"
    );
}

#[test]
fn csv_quotes_and_escapes_follow_their_options() {
    let rows = batch(vec![
        ("a", strings(&[Some("a\\\"b"), Some("\"q"), Some("a,b\\")])),
        ("b", strings(&[Some("c\"d"), Some("x"), Some("y")])),
    ]);
    for (options, expected) in [
        (
            &[("charToEscapeQuoteEscaping", "|")][..],
            "\"a|\\\\\"b\",\"c\\\"d\"\n\"\\\"q\",x\n\"a,b|\\\",y\n",
        ),
        (
            &[("escapeQuotes", "false")],
            "a\\\"b,c\"d\n\"\\\"q\",x\n\"a,b\\\\\",y\n",
        ),
    ] {
        assert_eq!(
            encode(&format("csv", options), &rows),
            expected,
            "{options:?}"
        );
    }
    let error = try_encode(
        &format("csv", &[("charToEscapeQuoteEscaping", "\0")]),
        &[rows],
    );
    let error = error.unwrap_err().to_string();
    assert!(error.contains("charToEscapeQuoteEscaping"), "{error}");
}

#[test]
fn csv_extension_and_codec_are_part_of_the_name() {
    for (options, expected) in [
        (&[("extension", "tsv")][..], "tsv"),
        (&[("codec", "gzip")], "csv.gz"),
        (&[("codec", "gzip"), ("extension", "tsv")], "tsv.gz"),
        (&[("codec", "gzip"), ("compression", "none")], "csv"),
    ] {
        assert_eq!(format("csv", options).extension(), expected);
    }
    assert!(try_format("csv", &[("extension", "../x")]).is_err());
}

#[test]
fn csv_first_field_that_looks_like_a_comment_is_put_in_quotes() {
    let rows = batch(vec![
        ("n", Arc::new(Int32Array::from(vec![-1, 1])) as ArrayRef),
        ("s", strings(&[Some("-a"), Some("b")])),
    ]);
    assert_eq!(
        encode(&format("csv", &[("comment", "-")]), &rows),
        "\"-1\",-a\n1,b\n"
    );
    assert_eq!(encode(&format("csv", &[]), &rows), "-1,-a\n1,b\n");
}
