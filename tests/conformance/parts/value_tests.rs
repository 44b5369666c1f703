//! Arrow values of every type in the spelling of the case files.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Date64Array, Decimal128Array,
    Decimal256Array, DictionaryArray, DurationMicrosecondArray, DurationSecondArray,
    FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int64Array, IntervalDayTimeArray,
    IntervalMonthDayNanoArray, IntervalYearMonthArray, LargeListArray, NullArray, StringArray,
    StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray,
    UInt64Array, UnionArray,
};
use arrow::datatypes::{
    DataType, Field, Float64Type, Int8Type, Int32Type, IntervalDayTime, IntervalMonthDayNano,
    UnionFields, UnionMode, i256,
};
use serde_json::{Value, json};

use crate::arrays;
use crate::value::values;
use weir::types::parse_schema;

fn spelled(array: impl arrow::array::Array + 'static) -> Value {
    let array: ArrayRef = Arc::new(array);
    Value::Array(values(&Field::new("c", array.data_type().clone(), true), &array).unwrap())
}

#[test]
fn values_numbers_keep_all_bits() {
    let spelled_longs = spelled(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]));
    assert_eq!(spelled_longs, json!([i64::MIN, null, i64::MAX]));
    assert_eq!(spelled(Int8Array::from(vec![-128])), json!([-128]));
    assert_eq!(
        spelled(UInt64Array::from(vec![u64::MAX])),
        json!(["18446744073709551615"])
    );
    assert_eq!(spelled(BooleanArray::from(vec![true])), json!([true]));
    assert_eq!(spelled(NullArray::new(2)), json!([null, null]));
}

#[test]
fn values_fractions_are_numbers_or_words() {
    let doubles = vec![1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0];
    let spelled_doubles = spelled(Float64Array::from(doubles));
    assert_eq!(
        spelled_doubles.to_string(),
        r#"[1.0,"NaN","Infinity","-Infinity",-0.0]"#
    );
    assert_eq!(spelled(Float32Array::from(vec![0.5])).to_string(), "[0.5]");
}

#[test]
fn values_decimals_have_exactly_their_scale() {
    let decimals = Decimal128Array::from(vec![150, -5, 0])
        .with_precision_and_scale(5, 2)
        .unwrap();
    assert_eq!(spelled(decimals), json!(["1.50", "-0.05", "0.00"]));
    let whole = Decimal128Array::from(vec![7])
        .with_precision_and_scale(2, 0)
        .unwrap();
    assert_eq!(spelled(whole), json!(["7"]));
    let wide = Decimal256Array::from(vec![i256::from(12)])
        .with_precision_and_scale(50, 1)
        .unwrap();
    assert_eq!(spelled(wide), json!(["1.2"]));
}

#[test]
fn values_texts_and_bytes_of_every_layout() {
    assert_eq!(spelled(StringArray::from(vec!["ü"])), json!(["ü"]));
    assert_eq!(
        spelled(StringViewArray::from(vec![Some("a"), None])),
        json!(["a", null])
    );
    let dictionary: DictionaryArray<Int8Type> = ["x", "y", "x"].into_iter().collect();
    assert_eq!(spelled(dictionary), json!(["x", "y", "x"]));
    let bytes: Vec<&[u8]> = vec![b"", b"f", b"fo", b"foo", b"\xff\xfe\xfd\xfc"];
    assert_eq!(
        spelled(BinaryArray::from(bytes)),
        json!(["", "Zg==", "Zm8=", "Zm9v", "//79/A=="])
    );
}

#[test]
fn values_dates_beyond_four_digits_have_a_sign() {
    let days = vec![
        0, -1, 20_484, 2_932_896, 2_932_897, -719_528, -719_529, 11_016,
    ];
    let texts = json!([
        "1970-01-01",
        "1969-12-31",
        "2026-01-31",
        "9999-12-31",
        "+10000-01-01",
        "0000-01-01",
        "-0001-12-31",
        "2000-02-29"
    ]);
    assert_eq!(spelled(Date32Array::from(days)), texts);
    assert_eq!(spelled(Date64Array::from(vec![-1])), json!(["1969-12-31"]));
}

#[test]
fn values_times_have_six_digits_and_z_only_with_a_zone() {
    let micros = vec![
        Some(7_000_001),
        None,
        Some(-1),
        Some(253_402_300_800_000_000),
    ];
    let naive = TimestampMicrosecondArray::from(micros);
    let texts = json!([
        "1970-01-01T00:00:07.000001",
        null,
        "1969-12-31T23:59:59.999999",
        "+10000-01-01T00:00:00.000000"
    ]);
    assert_eq!(spelled(naive), texts);
    let zoned = TimestampNanosecondArray::from(vec![1_001, -1]).with_timezone("UTC");
    assert_eq!(
        spelled(zoned),
        json!(["1970-01-01T00:00:00.000001Z", "1969-12-31T23:59:59.999999Z"])
    );
    assert_eq!(
        spelled(Time64MicrosecondArray::from(vec![3_661_000_002])),
        json!(["01:01:01.000002"])
    );
}

#[test]
fn values_intervals_are_spark_literals() {
    let micros = vec![93_784_500_000, -2_000_000, 0];
    assert_eq!(
        spelled(DurationMicrosecondArray::from(micros)),
        json!([
            "INTERVAL '1 02:03:04.5' DAY TO SECOND",
            "INTERVAL '-0 00:00:02' DAY TO SECOND",
            "INTERVAL '0 00:00:00' DAY TO SECOND"
        ])
    );
    assert_eq!(
        spelled(DurationSecondArray::from(vec![1])),
        json!(["INTERVAL '0 00:00:01' DAY TO SECOND"])
    );
    let day_time = IntervalDayTimeArray::from(vec![IntervalDayTime::new(1, 1)]);
    assert_eq!(
        spelled(day_time),
        json!(["INTERVAL '1 00:00:00.001' DAY TO SECOND"])
    );
    assert_eq!(
        spelled(IntervalYearMonthArray::from(vec![14, -9])),
        json!([
            "INTERVAL '1-2' YEAR TO MONTH",
            "INTERVAL '-0-9' YEAR TO MONTH"
        ])
    );
    let mixed = vec![
        IntervalMonthDayNano::new(14, 3, 3_600_500_000_000),
        IntervalMonthDayNano::new(0, 0, 0),
        IntervalMonthDayNano::new(0, 0, -500_000_000),
    ];
    assert_eq!(
        spelled(IntervalMonthDayNanoArray::from(mixed)),
        json!([
            "1 years 2 months 3 days 1 hours 0.5 seconds",
            "0 seconds",
            "-0.5 seconds"
        ])
    );
}

#[test]
fn values_nested_types_keep_their_nulls() {
    let cases = [
        (
            "ARRAY<ARRAY<INT>>",
            json!([[[1, null], [], null], null, []]),
        ),
        (
            "STRUCT<p: STRUCT<q: STRING>, n: INT>",
            json!([{"p": {"q": "x"}, "n": 1}, {"p": null, "n": null}, null]),
        ),
        (
            "MAP<STRING, STRUCT<z: INT>>",
            json!([{"k": {"z": 1}, "l": null}, {}, null]),
        ),
        ("MAP<INT, DATE>", json!([{"1": "2026-01-31"}])),
        (
            "STRUCT<t: TIMESTAMP, d: DECIMAL(5,2), b: BINARY>",
            json!([{"t": "2026-01-01T00:00:00.000000Z", "d": "1.50", "b": "Cv8="}]),
        ),
    ];
    for (text, expected) in cases {
        let schema = parse_schema(&format!("c {text}")).unwrap();
        let inputs: Vec<&Value> = expected.as_array().unwrap().iter().collect();
        let array = arrays::array(schema.field(0).data_type(), &inputs);
        let spelled = values(schema.field(0), &array).unwrap();
        assert_eq!(Value::Array(spelled), expected, "{text}");
    }
}

#[test]
fn values_lists_of_every_layout() {
    let fixed = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        vec![Some(vec![Some(1), None]), None],
        2,
    );
    assert_eq!(spelled(fixed), json!([[1, null], null]));
    let large =
        LargeListArray::from_iter_primitive::<Float64Type, _, _>(vec![Some(vec![Some(1.5)])]);
    assert_eq!(spelled(large), json!([[1.5]]));
}

#[test]
fn values_type_without_a_spelling_is_an_error() {
    let union = DataType::Union(UnionFields::empty(), UnionMode::Dense);
    let array = UnionArray::try_new(
        UnionFields::empty(),
        vec![].into(),
        Some(vec![].into()),
        vec![],
    )
    .unwrap();
    let error = values(
        &Field::new("c", union, true),
        &(Arc::new(array) as ArrayRef),
    )
    .unwrap_err();
    assert!(error.contains("has no spelling"), "{error}");
}

#[test]
fn values_intervals_of_fewer_fields_show_only_those() {
    let schema = parse_schema(
        "c INTERVAL DAY, c INTERVAL HOUR TO MINUTE, c INTERVAL SECOND, c INTERVAL YEAR, c INTERVAL MONTH",
    );
    let schema = schema.unwrap();
    let micros: ArrayRef = Arc::new(DurationMicrosecondArray::from(vec![-93_784_500_000]));
    let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![24]));
    let expected = [
        "INTERVAL '-1' DAY",
        "INTERVAL '-26:03' HOUR TO MINUTE",
        "INTERVAL '-93784.5' SECOND",
        "INTERVAL '2' YEAR",
        "INTERVAL '24' MONTH",
    ];
    for (field, expected) in schema.fields().iter().zip(expected) {
        let array = if matches!(field.data_type(), DataType::Duration(_)) {
            &micros
        } else {
            &months
        };
        assert_eq!(values(field, array).unwrap(), [json!(expected)]);
    }
}
