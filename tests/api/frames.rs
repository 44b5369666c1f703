//! Frames: columns, rows, SQL, functions of the user; bounded and as streams with the same code.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use weir::prelude::*;

use crate::support::{Home, add, numbers, session, stream};

fn people(session: &Session) -> DataFrame {
    let ids = Arc::new(Int64Array::from(vec![1, 2, 3])) as ArrayRef;
    let names = Arc::new(StringArray::from(vec!["ann", "bob", "ann"])) as ArrayRef;
    session
        .create_dataframe([RecordBatch::try_from_iter([("Id", ids), ("name", names)]).unwrap()])
        .unwrap()
}

#[tokio::test]
async fn columns_are_found_in_any_letter_case_and_keep_their_spelling() {
    let session = session();
    let frame = people(&session).select(["ID", "NAME"]).unwrap();
    assert_eq!(
        frame.columns(),
        ["ID", "NAME"],
        "the spelling that was asked for"
    );
    assert_eq!(
        people(&session).filter("ID > 1").unwrap().columns(),
        ["Id", "name"]
    );
    let error = people(&session).select(["nope"]).unwrap_err();
    assert!(error.to_string().contains("nope"), "{error}");
}

#[tokio::test]
async fn columns_can_be_computed_renamed_and_dropped() {
    let session = session();
    let frame = people(&session)
        .with_column("double", expr("Id * 2"))
        .unwrap()
        .with_column("ID", col("id") + lit(10_i64))
        .unwrap()
        .with_column_renamed("name", "who")
        .unwrap();
    assert_eq!(frame.columns(), ["ID", "who", "double"]);
    let frame = frame.drop(&["WHO", "nobody"]).unwrap();
    let batches = frame.collect().await.unwrap();
    assert_eq!(
        (numbers(&batches, "ID"), numbers(&batches, "double")),
        (vec![11, 12, 13], vec![2, 4, 6])
    );
}

#[tokio::test]
async fn stars_take_the_fields_of_a_struct_or_the_columns_of_a_frame() {
    let session = session();
    let frame = people(&session)
        .select_expr(&[
            "id",
            "if(id = 2, null, named_struct('Id', id * 10, 'odd ` name', name)) AS S",
        ])
        .unwrap();
    let fields = frame.select(["id", "s.*"]).unwrap();
    assert_eq!(fields.columns(), ["id", "Id", "odd ` name"]);
    let rows = frame
        .select_expr(&["S.*"])
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(
        (numbers(&rows, "Id"), rows[0].column(0).null_count()),
        (vec![10, 30], 1),
        "the fields of no struct are null"
    );
    let other = people(&session).alias("p").unwrap();
    assert_eq!(
        other.select(["p.*", "id + 1"]).unwrap().columns()[..2],
        ["Id", "name"]
    );
    for (star, condition) in [
        ("id.*", "CANNOT_RESOLVE_STAR_EXPAND"),
        ("nope.*", "UNRESOLVED_COLUMN.WITH_SUGGESTION"),
    ] {
        let error = frame.select([star]).unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
}

#[tokio::test]
async fn rows_can_be_filtered_united_deduplicated_and_counted() {
    let session = session();
    let frame = people(&session);
    assert_eq!(
        frame
            .filter("id > 1")
            .unwrap()
            .where_(col("name").eq(lit("ann")))
            .unwrap()
            .count()
            .await
            .unwrap(),
        1
    );
    assert_eq!(frame.union(&frame).unwrap().count().await.unwrap(), 6);
    assert_eq!(
        frame
            .select(["name"])
            .unwrap()
            .distinct()
            .unwrap()
            .count()
            .await
            .unwrap(),
        2
    );
    assert_eq!(
        frame
            .drop_duplicates(&["name"])
            .unwrap()
            .count()
            .await
            .unwrap(),
        2
    );
    assert_eq!(frame.limit(2).unwrap().count().await.unwrap(), 2);
    assert!(frame.union(&frame.select(["name"]).unwrap()).is_err());
    let counts = frame
        .group_by(["name"])
        .unwrap()
        .agg(["sum(id) AS total"])
        .unwrap();
    assert_eq!(numbers(&counts.collect().await.unwrap(), "total"), [2, 4]);
}

#[tokio::test]
async fn union_by_name_matches_names_and_fills_what_is_missing() {
    let session = session();
    let left = people(&session);
    let right = left
        .select_expr(&["name", "id", "id * 1.5 AS score"])
        .unwrap();
    assert!(left.union_by_name(&right, false).is_err());
    let united = left.union_by_name(&right, true).unwrap();
    assert_eq!(united.columns(), ["Id", "name", "score"]);
    assert_eq!(
        numbers(&united.collect().await.unwrap(), "Id"),
        [1, 1, 2, 2, 3, 3]
    );
}

#[tokio::test]
async fn joins_have_their_keys_once() {
    let session = session();
    let left = people(&session);
    let right = left.select_expr(&["id", "upper(name) AS loud"]).unwrap();
    let joined = left.join(&right, &["id"], "inner").unwrap();
    assert_eq!(joined.columns(), ["Id", "name", "loud"]);
    assert_eq!(joined.count().await.unwrap(), 3);
    assert_eq!(
        left.join(&right.filter("id = 1").unwrap(), &["id"], "left_anti")
            .unwrap()
            .count()
            .await
            .unwrap(),
        2
    );
    assert!(left.join(&right, &["id"], "sideways").is_err());
}

#[tokio::test]
async fn views_are_tables_in_sql_and_can_be_dropped() {
    let session = session();
    people(&session)
        .create_or_replace_temp_view("People")
        .unwrap();
    assert_eq!(
        session
            .sql("SELECT name FROM people WHERE id = 2")
            .await
            .unwrap()
            .count()
            .await
            .unwrap(),
        1
    );
    assert_eq!(
        session
            .table("PEOPLE")
            .await
            .unwrap()
            .count()
            .await
            .unwrap(),
        3
    );
    assert!(session.drop_temp_view("people").unwrap());
    let error = session.table("people").await.unwrap_err();
    assert_eq!(error.condition(), Some("TABLE_OR_VIEW_NOT_FOUND"));
}

#[tokio::test]
async fn schema_and_rows_print_as_spark_prints_them() {
    let session = session();
    let frame = people(&session);
    assert!(
        frame
            .schema_text()
            .starts_with("root\n |-- Id: long (nullable"),
        "{}",
        frame.schema_text()
    );
    let shown = frame.filter("id = 2").unwrap().show_text(20).await.unwrap();
    assert_eq!(
        shown,
        "+---+----+\n| Id|name|\n+---+----+\n|  2| bob|\n+---+----+\n"
    );
    assert!(
        frame
            .show_text(1)
            .await
            .unwrap()
            .contains("only showing top 1 row")
    );
}

#[tokio::test]
async fn functions_of_the_user_work_in_sql_and_expressions_on_tables_and_streams() {
    let session = session();
    let double = session
        .udf("double_it", &["BIGINT"], "BIGINT", |columns| {
            let values = columns[0].as_primitive::<Int64Type>();
            if values.iter().flatten().any(|value| value == 13) {
                return Err(WeirError::data("13 brings bad luck"));
            }
            Ok(Arc::new(values.unary::<_, Int64Type>(|value| value * 2)) as ArrayRef)
        })
        .unwrap();
    let called = people(&session)
        .select([double(vec![col("id")]).alias("d")])
        .unwrap();
    assert_eq!(numbers(&called.collect().await.unwrap(), "d"), [2, 4, 6]);
    let (rows, frame) = stream(&session);
    frame.create_or_replace_temp_view("numbers").unwrap();
    let query = session
        .sql("SELECT double_it(v) AS d FROM numbers")
        .await
        .unwrap();
    let query = query
        .write_stream()
        .format("memory")
        .query_name("doubled")
        .start()
        .await
        .unwrap();
    add(&rows, &[20, 30]);
    query.process_all_available().await.unwrap();
    assert_eq!(
        numbers(
            &session
                .table("doubled")
                .await
                .unwrap()
                .collect()
                .await
                .unwrap(),
            "d"
        ),
        [40, 60]
    );
    add(&rows, &[13]);
    let error = query.await_termination().await.unwrap_err();
    assert!(error.to_string().contains("bad luck"), "{error}");
}

#[tokio::test]
async fn explode_makes_a_row_per_element_on_tables_and_streams() {
    let session = session();
    let exploded = people(&session)
        .select_expr(&["name", "explode(array(id, id + 100)) AS x"])
        .unwrap();
    assert_eq!(exploded.columns(), ["name", "x"]);
    assert_eq!(
        numbers(&exploded.collect().await.unwrap(), "x"),
        [1, 2, 3, 101, 102, 103]
    );
    let (rows, frame) = stream(&session);
    let frame = frame
        .select([expr("posexplode(array(v, v * 10))")])
        .unwrap();
    assert_eq!(frame.columns(), ["pos", "col"]);
    let query = frame
        .write_stream()
        .format("memory")
        .query_name("elements")
        .start()
        .await
        .unwrap();
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    assert_eq!(
        numbers(
            &session
                .table("elements")
                .await
                .unwrap()
                .collect()
                .await
                .unwrap(),
            "col"
        ),
        [1, 2, 10, 20]
    );
    query.stop().await;
}

#[tokio::test]
async fn a_stream_united_with_itself_reads_its_source_once() {
    let session = session();
    let (rows, frame) = stream(&session);
    let both = frame
        .union(&frame.select_expr(&["v + 100"]).unwrap())
        .unwrap();
    let query = both
        .write_stream()
        .format("memory")
        .query_name("both")
        .start()
        .await
        .unwrap();
    add(&rows, &[1, 2]);
    query.process_all_available().await.unwrap();
    assert_eq!(
        numbers(
            &session
                .table("both")
                .await
                .unwrap()
                .collect()
                .await
                .unwrap(),
            "v"
        ),
        [1, 2, 101, 102]
    );
    assert_eq!(
        query.last_progress().map(|progress| progress.sources.len()),
        Some(1)
    );
    query.stop().await;
}

#[tokio::test]
async fn repartition_and_watermark_pass_rows_on() {
    let session = session();
    let (rows, frame) = stream(&session);
    let frame = frame
        .select_expr(&["v", "timestamp_seconds(v) AS ts"])
        .unwrap()
        .with_watermark("TS", "1 second")
        .unwrap();
    let frame = frame
        .repartition(3)
        .unwrap()
        .repartition_by(2, &["v"])
        .unwrap()
        .coalesce(1)
        .unwrap();
    let query = frame
        .write_stream()
        .format("memory")
        .query_name("moved")
        .start()
        .await
        .unwrap();
    add(&rows, &[10, 20, 30]);
    query.process_all_available().await.unwrap();
    assert_eq!(
        numbers(
            &session
                .table("moved")
                .await
                .unwrap()
                .collect()
                .await
                .unwrap(),
            "v"
        ),
        [10, 20, 30]
    );
    let progress = query
        .recent_progress()
        .into_iter()
        .find(|progress| progress.num_input_rows > 0)
        .unwrap();
    assert_eq!(
        progress.event_time.get("max").map(String::as_str),
        Some("1970-01-01T00:00:30.000Z")
    );
    query.stop().await;
}

#[tokio::test]
async fn bounded_files_are_read_one_by_one_or_as_a_directory() {
    let (home, session) = (Home::new(), session());
    home.put("in/a[1].json", "{\"v\":1}\n");
    home.put("in/b.json", "{\"v\":2}\n");
    let read = || session.read().schema("v BIGINT");
    let one = read().json(&home.text("in/a[1].json")).await.unwrap();
    assert_eq!(numbers(&one.collect().await.unwrap(), "v"), [1]);
    let all = read().json(&home.text("in")).await.unwrap();
    assert_eq!(numbers(&all.collect().await.unwrap(), "v"), [1, 2]);
    assert!(read().json(&home.text("in/c.json")).await.is_err());
}
