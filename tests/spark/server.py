"""Apache Spark for the tests beside this file: a session that does what it is told, a line of JSON for each command and each answer.

read    {"format", "path", "schema"?, "options"?, "select"?}: the rows of a table, sorted
stream  {..., "checkpoint"}: the rows of a stream over it, until everything there is was read, sorted
table   {"query", "format", "out", "zones", "select"}: what a query gives, written to a directory in the first of two zones; the rows of
        it, as read in the second, sorted
write   {..., "checkpoint", "out", "sinkFormat", "partitionBy"?, "sinkOptions"?, "conf"?}: such a stream written to a directory

A row is its values as text with "|" between them, NULL as "null".
"""

import contextlib
import json
import os
import sys
import tempfile

from pyspark.sql import SparkSession


def start():
    # Spark writes to stdout and stderr as it likes; answers have a descriptor of their own.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    builder = SparkSession.builder.master("local[2]").appName("weir")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": tempfile.mkdtemp(prefix="weir-spark-"),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark, answers


def reader(spark, told, source):
    source = source.format(told["format"]).options(**told.get("options", {}))
    if told.get("schema"):
        source = source.schema(told["schema"])
    return source.load(told["path"]).selectExpr(*told.get("select", ["*"]))


def rows(frame):
    texts = frame.selectExpr(*[f"cast(`{column}` as string)" for column in frame.columns])
    lines = ["|".join("null" if value is None else value for value in row) for row in texts.collect()]
    return sorted(lines)


def read(spark, told):
    frame = reader(spark, told, spark.read)
    return {"rows": rows(frame), "schema": frame.schema.simpleString()}


def stream(spark, told):
    taken = []
    frame = reader(spark, told, spark.readStream)
    writer = frame.writeStream.foreachBatch(lambda batch, _: taken.extend(rows(batch)))
    run(writer, told)
    return {"rows": sorted(taken)}


def table(spark, told):
    writer, reader = told["zones"]
    with zone(spark, writer):
        spark.sql(told["query"]).write.format(told["format"]).save(told["out"])
    with zone(spark, reader):
        return {"rows": rows(spark.read.format(told["format"]).load(told["out"]).selectExpr(*told["select"]))}


@contextlib.contextmanager
def zone(spark, name):
    """Process and session in a zone, as if they had been started there."""
    zones = spark._jvm.java.util.TimeZone
    before = zones.getDefault()
    zones.setDefault(zones.getTimeZone(name))
    spark.conf.set("spark.sql.session.timeZone", name)
    try:
        yield
    finally:
        zones.setDefault(before)
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def write(spark, told):
    for key, value in told.get("conf", {}).items():
        spark.conf.set(key, value)
    writer = reader(spark, told, spark.readStream).writeStream.format(told["sinkFormat"])
    writer = writer.options(**told.get("sinkOptions", {})).option("path", told["out"])
    if told.get("partitionBy"):
        writer = writer.partitionBy(*told["partitionBy"])
    run(writer, told)
    for key in told.get("conf", {}):
        spark.conf.unset(key)
    return {}


def run(writer, told):
    query = writer.option("checkpointLocation", told["checkpoint"]).trigger(availableNow=True).start()
    query.awaitTermination()


def main():
    spark, answers = start()
    print(json.dumps({"version": spark.version}), file=answers, flush=True)
    for line in sys.stdin:
        told = json.loads(line)
        try:
            answer = {"read": read, "stream": stream, "table": table, "write": write}[told["do"]](spark, told)
        except Exception as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), file=answers, flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
