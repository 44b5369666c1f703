//! Schema text both ways: known texts, refusals word for word, and random schemas there and back.
#![allow(clippy::too_many_lines, reason = "tables of texts")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use proptest::prelude::*;

use super::*;

fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

fn map(key: DataType, value: DataType) -> DataType {
    let entries = Fields::from(vec![
        Field::new("key", key, false),
        Field::new("value", value, true),
    ]);
    DataType::Map(
        Arc::new(Field::new("entries", DataType::Struct(entries), false)),
        false,
    )
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

#[test]
fn parse_schema_nested_types_and_odd_names_become_arrow() -> Result<(), DdlError> {
    let schema = parse_schema(
        "user_id STRING, ts TIMESTAMP, s STRUCT<a: INT, b: ARRAY<STRING>>, \
         `odd ``name` MAP<STRING, BIGINT> NOT NULL COMMENT 'it''s \\'x\\''",
    )?;
    let inner = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", list(DataType::Utf8), true),
    ]);
    let odd = Field::new("odd `name", map(DataType::Utf8, DataType::Int64), false)
        .with_metadata(HashMap::from([("comment".into(), "it's 'x'".into())]));
    let expected = Schema::new(vec![
        Field::new("user_id", DataType::Utf8, true),
        Field::new("ts", instant(), true),
        Field::new("s", DataType::Struct(inner), true),
        odd,
    ]);
    assert_eq!(*schema, expected);
    Ok(())
}

#[test]
fn parse_type_every_spelling_has_its_arrow_type() -> Result<(), DdlError> {
    let spellings = [
        ("boolean", DataType::Boolean),
        ("TinyInt", DataType::Int8),
        ("BYTE", DataType::Int8),
        ("SMALLINT", DataType::Int16),
        ("SHORT", DataType::Int16),
        ("INT", DataType::Int32),
        ("INTEGER", DataType::Int32),
        ("BIGINT", DataType::Int64),
        ("LONG", DataType::Int64),
        ("FLOAT", DataType::Float32),
        ("REAL", DataType::Float32),
        ("DOUBLE", DataType::Float64),
        ("DECIMAL", DataType::Decimal128(10, 0)),
        ("DEC(5)", DataType::Decimal128(5, 0)),
        ("NUMERIC(38, 38)", DataType::Decimal128(38, 38)),
        ("STRING", DataType::Utf8),
        ("CHAR(3)", DataType::Utf8),
        ("VARCHAR(255)", DataType::Utf8),
        ("BINARY", DataType::Binary),
        ("DATE", DataType::Date32),
        ("TIMESTAMP", instant()),
        ("TIMESTAMP_LTZ", instant()),
        (
            "TIMESTAMP_NTZ",
            DataType::Timestamp(TimeUnit::Microsecond, None),
        ),
        ("VOID", DataType::Null),
        ("INTERVAL", DataType::Interval(IntervalUnit::MonthDayNano)),
        ("INTERVAL YEAR", DataType::Interval(IntervalUnit::YearMonth)),
        (
            "INTERVAL year TO month",
            DataType::Interval(IntervalUnit::YearMonth),
        ),
        (
            "INTERVAL DAY TO SECOND",
            DataType::Duration(TimeUnit::Microsecond),
        ),
        ("INTERVAL SECOND", DataType::Duration(TimeUnit::Microsecond)),
        ("STRUCT<>", DataType::Struct(Fields::empty())),
        (
            "array<map<int,array<int>>>",
            list(map(DataType::Int32, list(DataType::Int32))),
        ),
    ];
    for (text, expected) in spellings {
        assert_eq!(parse_type(text)?, expected, "{text}");
    }
    Ok(())
}

#[test]
fn parse_schema_keywords_and_digits_can_name_columns() -> Result<(), DdlError> {
    let schema = parse_schema("date DATE, struct: INT, 1st INT, comment STRING, end TIMESTAMP")?;
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    assert_eq!(names, ["date", "struct", "1st", "comment", "end"]);
    Ok(())
}

#[test]
fn parse_schema_mistakes_are_told_with_place_and_remedy() {
    let cases = [
        (
            "",
            "character 1: found the end of the text, expected a column name",
        ),
        (
            "a",
            "character 2: found the end of the text, expected a type, one of BOOLEAN,",
        ),
        (
            "a INTT",
            "character 3: unknown type 'INTT', allowed are BOOLEAN, TINYINT",
        ),
        (
            "a INT b INT",
            "character 7: found 'b', expected ',' or the end of the text",
        ),
        (
            "a INT,",
            "character 7: found the end of the text, expected a column name",
        ),
        ("my-name INT", "character 3: found '-', expected a type"),
        ("12 INT", "character 1: found '12', expected a column name"),
        ("`` INT", "character 1: found '``', expected a column name"),
        ("a `INT`", "character 3: found '`INT`', expected a type"),
        (
            "ü ARRAY INT",
            "character 9: found 'INT', expected '<' and the type of the elements",
        ),
        (
            "a ARRAY<INT",
            "character 12: found the end of the text, expected '>'",
        ),
        (
            "a MAP<INT>",
            "character 10: found '>', expected ',' between",
        ),
        (
            "a STRUCT<b INT c INT>",
            "character 16: found 'c', expected ',' or '>'",
        ),
        (
            "a DECIMAL(39)",
            "character 11: the precision of DECIMAL is 39, allowed is 1 to 38",
        ),
        (
            "a DECIMAL(5,6)",
            "character 13: the scale of DECIMAL is 6, allowed is 0 to 5",
        ),
        (
            "a DECIMAL(x)",
            "character 11: found 'x', expected the precision of DECIMAL, a whole",
        ),
        (
            "a VARCHAR",
            "character 10: found the end of the text, expected '(' and the length",
        ),
        (
            "a CHAR(0)",
            "character 8: the length of CHAR or VARCHAR is 0, allowed is 1 to",
        ),
        (
            "a INT NOT",
            "character 10: found the end of the text, expected NULL after NOT",
        ),
        (
            "a INT COMMENT x",
            "character 15: found 'x', expected a text in quotes after COMMENT",
        ),
        (
            "a INT COMMENT 'x",
            "character 15: this text in quotes is never closed",
        ),
        (
            "`a INT",
            "character 1: this name in backticks is never closed",
        ),
        (
            "a INTERVAL SECOND TO DAY",
            "character 19: found 'TO', expected ','",
        ),
        (
            "a INTERVAL DAY TO YEAR",
            "character 19: found 'YEAR', expected one of HOUR, MINUTE, SECOND",
        ),
    ];
    for (text, expected) in cases {
        let error = parse_schema(text).expect_err(text).to_string();
        assert!(error.starts_with("schema text at "), "{text}: {error}");
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn parse_type_endless_nesting_is_refused_not_followed() {
    let text = "ARRAY<".repeat(100_000);
    assert!(matches!(parse_type(&text), Err(DdlError::TooDeep { .. })));
}

#[test]
fn type_name_nested_types_keep_field_names_unquoted() {
    let fields = Fields::from(vec![
        Field::new("odd name", DataType::Int64, false),
        Field::new(
            "m",
            map(DataType::Utf8, list(DataType::Decimal128(10, 2))),
            true,
        ),
    ]);
    assert_eq!(
        type_name(&DataType::Struct(fields)),
        "STRUCT<odd name: BIGINT, m: MAP<STRING, ARRAY<DECIMAL(10,2)>>>"
    );
}

#[test]
fn type_name_other_layouts_share_the_spark_name() {
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let cases = [
        (DataType::Utf8View, "STRING"),
        (DataType::LargeBinary, "BINARY"),
        (dictionary, "STRING"),
        (DataType::UInt32, "BIGINT"),
        (DataType::UInt64, "DECIMAL(20,0)"),
        (
            DataType::Timestamp(TimeUnit::Nanosecond, Some("+01:00".into())),
            "TIMESTAMP",
        ),
        (DataType::Timestamp(TimeUnit::Second, None), "TIMESTAMP_NTZ"),
        (DataType::Decimal256(50, 3), "DECIMAL(50,3)"),
        (DataType::Time64(TimeUnit::Microsecond), "TIME(6)"),
    ];
    for (data_type, expected) in cases {
        assert_eq!(type_name(&data_type), expected, "{data_type}");
    }
}

#[test]
fn field_type_name_tells_which_fields_an_interval_names() -> Result<(), DdlError> {
    let text = "a INTERVAL DAY, b INTERVAL HOUR TO MINUTE, c INTERVAL DAY TO SECOND, d INTERVAL MONTH, \
                e INTERVAL YEAR TO MONTH, f ARRAY<INTERVAL SECOND>, g STRUCT<x: MAP<INTERVAL DAY, INTERVAL>>";
    let schema = parse_schema(text)?;
    assert_eq!(schema_ddl(&schema), text);
    let names: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| field_type_name(field))
        .collect();
    assert_eq!(names[0], "INTERVAL DAY");
    assert_eq!(names[2], "INTERVAL DAY TO SECOND");
    assert_eq!(names[5], "ARRAY<INTERVAL SECOND>");
    let cast = schema.field(0).clone().with_data_type(DataType::Int64);
    assert_eq!(field_type_name(&cast), "BIGINT");
    Ok(())
}

#[test]
fn schema_ddl_not_null_and_comment_stand_inside_structs_too() -> Result<(), DdlError> {
    let text = "a STRUCT<`b c`: INT NOT NULL COMMENT 'it\\'s'> NOT NULL, `1` ARRAY<STRING>";
    assert_eq!(schema_ddl(&*parse_schema(text)?), text);
    Ok(())
}

fn any_name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z_][a-z0-9_]{0,8}",
        "[0-9]{1,3}",
        "[ -~]{1,8}",
        "\\PC{1,6}"
    ]
}

fn any_scalar() -> impl Strategy<Value = DataType> {
    prop_oneof![
        Just(DataType::Boolean),
        Just(DataType::Int8),
        Just(DataType::Int16),
        Just(DataType::Int32),
        Just(DataType::Int64),
        Just(DataType::Float32),
        Just(DataType::Float64),
        Just(DataType::Utf8),
        Just(DataType::Binary),
        Just(DataType::Date32),
        Just(instant()),
        Just(DataType::Timestamp(TimeUnit::Microsecond, None)),
        Just(DataType::Duration(TimeUnit::Microsecond)),
        Just(DataType::Interval(IntervalUnit::YearMonth)),
        Just(DataType::Interval(IntervalUnit::MonthDayNano)),
        Just(DataType::Null),
        (1u8..=38).prop_flat_map(|p| {
            (0..=p).prop_map(move |s| DataType::Decimal128(p, s.cast_signed()))
        }),
    ]
}

fn any_field(data_type: impl Strategy<Value = DataType>) -> impl Strategy<Value = Field> {
    let comment = proptest::option::of("\\PC{0,6}['\"\\\\]?");
    (any_name(), data_type, any::<bool>(), comment).prop_map(|(name, data_type, null, comment)| {
        let mut metadata = HashMap::new();
        metadata.extend(comment.map(|text| (COMMENT_KEY.to_owned(), text)));
        if matches!(data_type, DataType::Duration(_)) && null {
            metadata.insert(INTERVAL_FIELDS_KEY.to_owned(), "HOUR TO SECOND".to_owned());
        }
        Field::new(name, data_type, null).with_metadata(metadata)
    })
}

fn any_type() -> impl Strategy<Value = DataType> {
    any_scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(list),
            (inner.clone(), inner.clone()).prop_map(|(key, value)| map(key, value)),
            proptest::collection::vec(any_field(inner), 0..4)
                .prop_map(|fields| DataType::Struct(fields.into())),
        ]
    })
}

proptest! {
    #[test]
    fn schema_ddl_any_schema_is_read_back_the_same(
        fields in proptest::collection::vec(any_field(any_type()), 1..5)
    ) {
        let schema = Schema::new(fields);
        let text = schema_ddl(&schema);
        let back = parse_schema(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(&*back, &schema, "{}", text);
    }

    #[test]
    fn parse_schema_any_text_is_answered_without_a_panic(text in "\\PC{0,60}") {
        parse_schema(&text).ok();
    }

    #[test]
    fn parse_schema_any_order_of_known_words_is_answered_without_a_panic(
        words in proptest::collection::vec(
            prop_oneof!["[<>(),:]", "a|INT|ARRAY|MAP|STRUCT|DECIMAL|INTERVAL|DAY|TO|NOT|NULL|COMMENT|'x'|10"], 0..20)
    ) {
        parse_schema(&words.join(" ")).ok();
    }
}
