"""What Apache Spark makes of CSV lines with quotes in odd places and with separators of several characters, as cases for the tests of
the CSV reader:

    ~/.cache/weir-pyspark/4.3.0/bin/python tests/spark/record_csv.py > connectors/src/file/decode/csv/tests/spark.json
"""

import json
import os
import tempfile

from pyspark.sql import SparkSession

SCHEMA = "c0 string, c1 string, c2 string, bad string"

QUOTES = [
    'a,b,c', '"a","b","c"', '"a "b" c",d,e', '"a "b" c,d,e', '"a,b "c" d,e,f', '"a"b,c,d', '"a" b,c,d', '"a" b","c",d',
    'a"b"c,d,e', 'a "b" c,d,e', '"a""b",c,d', '"a\\"b",c,d', '"a\\b",c,d', '"a\\\\b",c,d', '"a\\\\",b,c', '"a\\\\"b",c,d',
    '"a, "b", c",d,e', '" a ","b" , "c"', '"a"b"c",d,e', '"a",b"c,"d"e', '"a"x"b"y,c,d', 'x,"a "b,c" d,e', 'x,"a,b "c,d" e,f',
    '"",b,c', '""b,c,d', '"a,b,c', 'a,"b,c', 'x,"a"b', 'x,"a,b "c', '"a"\\"b",c,d', '"a" "b",c,d', 'x,y,"a"z"', '"a""",b,c',
    '"""a",b,c', 'x,y,"a',
]
ESCAPES = [
    '"a\\"b",c,d', '"a\\b",c,d', '"a\\\\b",c,d', '"a\\\\",b,c', '"a\\\\"b",c,d', '"a|"b",c,d', '"a||b",c,d', '"a||"b",c,d',
    '"a||",b,c', '"a|b",c,d', '"a|\\b",c,d', '"a|\\",b,c', '"a|\\"b",c,d', '"a|\\\\"b",c,d', '"a""b",c,d',
]
BARS = [
    'a||b||c', 'a|b||c|||d', '"a||b"||c||d', '"a "x" b"||c||d', '"a||b "x" c||d||e', '"a"b||c||d', ' a || b || c ', '"a" || "b" ||c',
    '||', 'a||', '||||', '"a\\"b"||c||d', 'a||"b', '"a"|b||c||d', '"a"||"b"||"c"', '"a||"||"|"||"||"',
]
HANDLINGS = ["STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE"]

CASES = (
    [(QUOTES, {"unescapedQuoteHandling": handling}) for handling in HANDLINGS]
    + [(ESCAPES, {"charToEscapeQuoteEscaping": other}) for other in ("|", "\\", "\0")]
    + [(ESCAPES, {"escape": "|"}), (ESCAPES, {"escape": "|", "charToEscapeQuoteEscaping": "\\"}), (ESCAPES, {"escape": '"'})]
    # Spark fails on SKIP_VALUE here.
    + [(BARS, {"sep": "||", "unescapedQuoteHandling": handling}) for handling in HANDLINGS[:3]]
    + [
        (BARS, {"sep": "||", "ignoreLeadingWhiteSpace": "true", "ignoreTrailingWhiteSpace": "true"}),
        (["aXYbXYc", "aXbXYcXYXYd", '"aXY"XYcXYd', "aXXYbXYc", "aXYbXYX"], {"sep": "XY"}),
        (["a\t|b\t|c", '"a" \t|"b"\t|c'], {"sep": "\\t|"}),
        (["a§b§c", '"a§"§b§c'], {"sep": "§"}),
        (["a, b, c", "a,b, c"], {"sep": ", "}),
        (["a\t\tb\t\tc", "a\t\t\t\t"], {"sep": "\t\t"}),
    ]
)


def main():
    builder = SparkSession.builder.master("local[1]")
    for key, value in {"ui.enabled": "false", "ui.showConsoleProgress": "false", "driver.host": "127.0.0.1"}.items():
        builder = builder.config("spark." + key, value)
    spark = builder.getOrCreate()
    recorded = []
    for lines, options in CASES:
        directory = tempfile.mkdtemp()
        with open(os.path.join(directory, "f.csv"), "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        frame = spark.read.schema(SCHEMA).options(columnNameOfCorruptRecord="bad", **options).csv(directory)
        rows = [list(row) for row in frame.collect()]
        assert len(rows) == len(lines), (options, rows)
        recorded.append({"options": options, "records": [list(pair) for pair in zip(lines, rows)]})
    texts = []
    for case in recorded:
        records = ",\n".join("    " + json.dumps(record, ensure_ascii=False) for record in case["records"])
        texts.append('  {"options": ' + json.dumps(case["options"]) + ', "records": [\n' + records + "\n  ]}")
    print("[\n" + ",\n".join(texts) + "\n]")
    spark.stop()


if __name__ == "__main__":
    main()
