//! Where records and fields begin and end.

use super::*;

#[test]
fn byte_order_mark_is_not_part_of_the_first_name() {
    for file in [
        &b"\xEF\xBB\xBFid,name\n1,a\n"[..],
        b"\xEF\xBB\xBF\"id\",\"name\"\n1,a\n",
    ] {
        assert_eq!(read(file, "id long, name string", HEADER), ["1|a"]);
    }
    assert!(read(b"\xEF\xBB\xBF", "id long, name string", HEADER).is_empty());
}

#[test]
fn line_ends_of_every_kind_are_understood_and_kept_inside_quotes() {
    let file = b"id,s,p\r\n1,\"A\r\nB\",x\r\n2,plain,y\r\n";
    for step in 1..=64 {
        let settings = settings("id long, s string, p string", ParseMode::FailFast);
        let given = options(&[("header", "true"), ("multiLine", "true")]);
        let (batch, _) = try_read(file, step, settings, &given).unwrap();
        assert_eq!(rows(&batch), ["1|A\r\nB|x", "2|plain|y"]);
    }
    assert_eq!(
        read(b"1,a\r2,b\n3,c\r\n\r\n4,d", "id long, s string", &[]),
        ["1|a", "2|b", "3|c", "4|d"]
    );
    assert_eq!(
        read(b"1,a\n|2,b|", "id long, s string", &[("lineSep", "|")]),
        ["1|a\n", "2|b"]
    );
}

#[test]
fn doubled_and_escaped_quotes_are_both_understood() {
    let file = b"x,s\n1,\"new\nline, \"\"quoted\"\"\"\n2,\"with space\"\n3,\"\"\n";
    for multi_line in [
        &[("header", "true")][..],
        &[("header", "true"), ("multiLine", "true")],
    ] {
        assert_eq!(
            read(file, "x long, s string", multi_line),
            ["1|new\nline, \"quoted\"", "2|with space", "3|"]
        );
    }
    let spark =
        b"\"he said \\\"hi\\\"\"\n\"C:\\\\dir\\\\\"\nC:\\dir\\\n\"a\\\\\\\"b\"\n\"a\\nb\"\n";
    assert_eq!(
        read(spark, "s string", &[]),
        [
            "he said \"hi\"",
            "C:\\dir\\",
            "C:\\dir\\",
            "a\\\"b",
            "a\\nb"
        ]
    );
    let rfc = b"\"C:\\dir\\\",\"\"\"\"\n";
    assert_eq!(
        read(rfc, "a string, b string", &[("escape", "\"")]),
        ["C:\\dir\\|\""]
    );
}

#[test]
fn quoted_line_end_is_one_bad_record_when_multi_line_is_off() {
    let file = b"1,\"new\nline, \"\"quoted\"\"\"\n2,b\n";
    let settings = settings(
        "x long, s string, _corrupt_record string",
        ParseMode::Permissive,
    );
    let (batch, bad) = try_read(file, 1, settings, &options(&[("multiLine", "false")])).unwrap();
    let rows = rows(&batch);
    assert_eq!((rows.len(), bad.count), (2, 1));
    assert!(
        rows[0].ends_with("|1,\"new\nline, \"\"quoted\"\"\""),
        "{}",
        rows[0]
    );
    assert_eq!(rows[1], "2|b|~");
}

#[test]
fn quote_that_is_never_closed_costs_its_own_line_only() {
    for (file, good) in [
        (&b"1,\"abc\n2,def\n3,\"g\"\n"[..], 3),
        (b"1,\"abc\n2,\"def\"\n3,g\n", 3),
        (b"1,\"a\"\"\n2,b\n3,c", 3),
        (b"1,\"abc", 1),
    ] {
        for multi_line in ["true", "false"] {
            let settings = settings("id long, s string", ParseMode::Permissive);
            let given = options(&[("multiLine", multi_line)]);
            let (batch, bad) = try_read(file, 2, settings, &given).unwrap();
            assert_eq!(batch.num_rows(), good, "{}", String::from_utf8_lossy(file));
            let first = bad.first.unwrap();
            assert_eq!((bad.count, first.line), (1, 1));
            assert!(first.reason.contains("not closed"));
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 1);
        }
    }
}

#[test]
fn stray_quotes_do_not_make_one_record_of_two() {
    let file = b"1,\"a,x,q\n2,b\",y,z\n3,c,z\n";
    assert_eq!(read(file, "id long, s string, t string", &[]).len(), 3);
}

#[test]
fn text_after_a_closing_quote_makes_the_field_a_plain_one() {
    assert_eq!(
        read(b"\"a\"b,1\n\"a\" ,2\nx\"y\",3\n", "s string, n int", &[]),
        ["\"a\"b|1", "a|2", "x\"y\"|3"]
    );
}

#[test]
fn blank_lines_and_comments_are_no_records() {
    assert_eq!(
        read(
            b"id,name\n\n1,a\n\n   \n2,b\n\n",
            "id long, name string",
            HEADER
        ),
        ["1|a", "2|b"]
    );
    let given = [("header", "true"), ("sep", ";"), ("comment", "#")];
    assert_eq!(
        read(
            b"# first\nid;name\n\n#x;y\n1;a\n2;#b",
            "id long, name string",
            &given
        ),
        ["1|a", "2|#b"]
    );
    assert_eq!(read(b"\n\nx\n\n", "s string", &[]), ["x"]);
    assert_eq!(
        read(b"\t\t\n1\t2\t3", "a int, b int, c int", &[("sep", "\\t")]),
        ["~|~|~", "1|2|3"]
    );
}

#[test]
fn quotes_can_be_switched_off() {
    assert_eq!(
        read(b"\"a,b\"\n", "x string, y string", &[("quote", "")]),
        ["\"a|b\""]
    );
}

#[test]
fn record_longer_than_the_limit_is_bad_and_its_neighbours_are_kept() {
    let long = [&b"2,\""[..], &vec![b'x'; 3 << 20], b"\""].concat();
    let file = [&b"1,a\r\n"[..], &long, b"\r\n3,b\r\n"].concat();
    let limited = |step, mode| {
        let mut settings = settings("id long, s string, _corrupt_record string", mode);
        settings.max_record_bytes = 1 << 20;
        try_read(&file, step, settings, &CsvOptions::default())
    };
    let beginning = String::from_utf8_lossy(&long[..1024]);
    for step in [usize::MAX, 4093] {
        let (batch, bad) = limited(step, ParseMode::Permissive).unwrap();
        assert_eq!(
            rows(&batch),
            [
                "1|a|~".to_owned(),
                format!("~|~|{beginning}"),
                "3|b|~".to_owned()
            ]
        );
        let first = bad.first.unwrap();
        assert_eq!((bad.count, first.line), (1, 2));
        assert_eq!(
            first.reason,
            format!("the record has {} bytes, allowed are 1048576", long.len())
        );
        let (batch, _) = limited(step, ParseMode::DropMalformed).unwrap();
        assert_eq!(rows(&batch), ["1|a|~", "3|b|~"]);
    }
    let error = limited(usize::MAX, ParseMode::FailFast).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
    let rows = read(&file, "id long, s string", &[]);
    assert_eq!(rows[1].len(), 2 + (3 << 20));
}

#[test]
fn quoted_field_that_goes_on_beyond_the_limit_costs_its_own_line() {
    let line = [&b"x".repeat(1000)[..], b"\n"].concat();
    let file = [&b"1,\"open\n"[..], &line.repeat(1500), b"2,b\n"].concat();
    let mut settings = settings("id long, s string", ParseMode::DropMalformed);
    settings.max_record_bytes = 1 << 20;
    let given = options(&[("multiLine", "true")]);
    let (batch, bad) = try_read(&file, usize::MAX, settings, &given).unwrap();
    assert_eq!((rows(&batch), bad.count), (vec!["2|b".to_owned()], 1501));
    assert_eq!(bad.first.unwrap().reason, "a quote is not closed");
}

#[test]
fn very_many_fields_are_counted_without_being_kept() {
    let file = vec![b','; 1 << 22];
    let settings = settings("a string, b string", ParseMode::FailFast);
    let error = try_read(&file, usize::MAX, settings, &CsvOptions::default()).unwrap_err();
    assert!(
        error.to_string().contains("4194305 fields instead of 2"),
        "{error}"
    );
}
