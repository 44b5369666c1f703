"""Makes avro.json and protobuf.json; see README.md."""

import datetime
import decimal
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import fastavro

HERE = pathlib.Path(__file__).parent


def record(name, *fields):
    return {"type": "record", "name": name, "fields": [dict(zip(("name", "type"), f)) for f in fields]}


def utc(*parts):
    return datetime.datetime(*parts, tzinfo=datetime.timezone.utc)


LOGICAL = record(
    "logical",
    ("date", {"type": "int", "logicalType": "date"}),
    ("millis", {"type": "long", "logicalType": "timestamp-millis"}),
    ("micros", {"type": "long", "logicalType": "timestamp-micros"}),
    ("local", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("dec", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}),
    ("fix", {"type": "fixed", "name": "fx", "size": 6, "logicalType": "decimal", "precision": 10, "scale": 2}),
    ("id", {"type": "string", "logicalType": "uuid"}),
)
ORDER = record(
    "order",
    ("id", "long"),
    ("customer", ["null", "string"]),
    ("status", {"type": "enum", "name": "status", "symbols": ["NEW", "PAID", "SHIPPED"]}),
    ("items", {"type": "array", "items": record("item", ("sku", "string"), ("quantity", "int"))}),
    ("stock", {"type": "map", "values": ["int", "null"]}),
    ("main", ["null", "item"]),
    ("hash", {"type": "fixed", "name": "hash", "size": 4}),
)

# name, writer's schema, reader's schema or None, options, [(value, expected JSON)], expected type
AVRO = [
    ("int", "int", None, {}, [(1, "1"), (-(2**31), "-2147483648"), (2**31 - 1, "2147483647")], "INT"),
    ("long", "long", None, {}, [(-(2**63), "-9223372036854775808"), (2**63 - 1, "9223372036854775807")], "BIGINT"),
    ("boolean", "boolean", None, {}, [(True, "true"), (False, "false")], "BOOLEAN"),
    ("double", "double", None, {}, [(1.5, "1.5"), (float("nan"), '"NaN"')], "DOUBLE"),
    ("float", "float", None, {}, [(0.25, "0.25")], "FLOAT"),
    ("string", "string", None, {}, [("", '""'), ("grüße 👋", '"grüße 👋"')], "STRING"),
    ("bytes", "bytes", None, {}, [(b"\x00\xff", '"AP8="'), (b"", '""')], "BINARY"),
    ("null", "null", None, {}, [(None, None)], "VOID"),
    (
        "a field of null", record("r", ("none", "null"), ("a", "int"), ("nothing", "null"), ("b", "int")), None, {},
        [({"none": None, "a": 1, "nothing": None, "b": 2}, '{"a":1,"b":2}')],
        "STRUCT<none: VOID, a: INT, nothing: VOID, b: INT>",
    ),
    (
        "order", ORDER, None, {},
        [
            (
                {"id": 7, "customer": "Anna", "status": "PAID", "items": [{"sku": "a", "quantity": 2}, {"sku": "b", "quantity": 0}],
                 "stock": {"x": 1, "y": None}, "main": {"sku": "m", "quantity": 1}, "hash": b"\x01\x02\x03\x04"},
                '{"id":7,"customer":"Anna","status":"PAID","items":[{"sku":"a","quantity":2},{"sku":"b","quantity":0}],'
                '"stock":{"x":1,"y":null},"main":{"sku":"m","quantity":1},"hash":"AQIDBA=="}',
            ),
            (
                {"id": -1, "customer": None, "status": "NEW", "items": [], "stock": {}, "main": None, "hash": b"\0\0\0\0"},
                '{"id":-1,"status":"NEW","items":[],"stock":{},"hash":"AAAAAA=="}',
            ),
        ],
        "STRUCT<id: BIGINT, customer: STRING, status: STRING, items: ARRAY<STRUCT<sku: STRING, quantity: INT>>, "
        "stock: MAP<STRING, INT>, main: STRUCT<sku: STRING, quantity: INT>, hash: BINARY>",
    ),
    (
        "logical types", LOGICAL, None, {},
        [
            (
                {"date": datetime.date(1969, 12, 31), "millis": utc(2026, 1, 2, 3, 4, 5, 678000),
                 "micros": utc(1969, 12, 31, 23, 59, 59, 999999), "local": datetime.datetime(2026, 1, 2, 3, 4, 5, 7),
                 "dec": decimal.Decimal("-12345678901234567.890"), "fix": decimal.Decimal("-0.01"), "id": "ABC-1"},
                '{"date":"1969-12-31","millis":"2026-01-02T03:04:05.678Z","micros":"1969-12-31T23:59:59.999Z",'
                '"local":"2026-01-02T03:04:05.000","dec":-12345678901234567.890,"fix":-0.01,"id":"ABC-1"}',
            ),
        ],
        "STRUCT<date: DATE, millis: TIMESTAMP, micros: TIMESTAMP, local: TIMESTAMP_NTZ, dec: DECIMAL(20,3), fix: DECIMAL(10,2), id: STRING>",
    ),
    ("nullable, null last", ["string", "null"], None, {}, [("x", '"x"'), (None, None)], "STRING"),
    ("int or long", ["int", "long"], None, {}, [(5, "5"), (2**40, "1099511627776")], "BIGINT"),
    ("float or double or null", ["null", "double", "float"], None, {}, [(1.5, "1.5"), (None, None)], "DOUBLE"),
    (
        "union of several", ["null", "int", "string", record("q", ("z", "int"))], None, {},
        [(3, '{"member0":3}'), ("s", '{"member1":"s"}'), ({"z": 1}, '{"member2":{"z":1}}'), (None, None)],
        "STRUCT<member0: INT, member1: STRING, member2: STRUCT<z: INT>>",
    ),
    (
        "union with stable names", ["int", "string"], None, {"enableStableIdentifiersForUnionType": "true"},
        [(3, '{"member_int":3}'), ("s", '{"member_string":"s"}')],
        "STRUCT<member_int: INT, member_string: STRING>",
    ),
    (
        "array of unions", {"type": "array", "items": ["int", "string", "null"]}, None, {},
        [([1, "a", None], '[{"member0":1},{"member1":"a"},null]'), ([], "[]")],
        "ARRAY<STRUCT<member0: INT, member1: STRING>>",
    ),
    (
        "evolution: order, promotion, default, dropped field",
        record("r", ("gone", {"type": "map", "values": "string"}), ("a", "int"), ("b", ["null", "string"]), ("c", "float")),
        {"type": "record", "name": "r", "fields": [
            {"name": "c", "type": "double"},
            {"name": "b", "type": ["null", "string"]},
            {"name": "added", "type": {"type": "array", "items": "int"}, "default": [1, 2]},
            {"name": "maybe", "type": ["null", "int"], "default": None},
            {"name": "renamed", "aliases": ["a"], "type": "long"},
            {"name": "sub", "type": record("s", ("x", "int")), "default": {"x": 9}},
        ]},
        {},
        [
            ({"gone": {"k": "v"}, "a": 5, "b": "t", "c": 0.5}, '{"c":0.5,"b":"t","added":[1,2],"renamed":5,"sub":{"x":9}}'),
            ({"gone": {}, "a": -5, "b": None, "c": 1.0}, '{"c":1.0,"added":[1,2],"renamed":-5,"sub":{"x":9}}'),
        ],
        "STRUCT<c: DOUBLE, b: STRING, added: ARRAY<INT>, maybe: INT, renamed: BIGINT, sub: STRUCT<x: INT>>",
    ),
    (
        "evolution: enum with default",
        {"type": "enum", "name": "e", "symbols": ["A", "B", "C"]},
        {"type": "enum", "name": "e", "symbols": ["OTHER", "B", "A"], "default": "OTHER"},
        {}, [("A", '"A"'), ("B", '"B"'), ("C", '"OTHER"')], "STRING",
    ),
    (
        "evolution: becomes nullable, inside a list",
        record("r", ("l", {"type": "array", "items": record("x", ("v", "int"))})),
        record("r", ("l", ["null", {"type": "array", "items": ["null", {"type": "record", "name": "x", "fields": [
            {"name": "v", "type": ["null", "long"]}, {"name": "w", "type": "string", "default": "-"}]}]}])),
        {}, [({"l": [{"v": 1}, {"v": 2}]}, '{"l":[{"v":1,"w":"-"},{"v":2,"w":"-"}]}'), ({"l": []}, '{"l":[]}')],
        "STRUCT<l: ARRAY<STRUCT<v: BIGINT, w: STRING>>>",
    ),
    (
        "evolution: a named type used twice gains a field",
        record("r", ("a", record("x", ("v", "int"))), ("b", "x")),
        record("r", ("a", {"type": "record", "name": "x", "fields": [
            {"name": "n", "type": "string", "default": "d"}, {"name": "v", "type": "int"}]}), ("b", "x")),
        {}, [({"a": {"v": 1}, "b": {"v": 2}}, '{"a":{"n":"d","v":1},"b":{"n":"d","v":2}}')],
        "STRUCT<a: STRUCT<n: STRING, v: INT>, b: STRUCT<n: STRING, v: INT>>",
    ),
    (
        "evolution: a union loses branches",
        ["null", "int", "string"], ["null", "long"], {}, [(4, "4"), (None, None)], "BIGINT",
    ),
    (
        "evolution: millis to micros keep the instant",
        {"type": "long", "logicalType": "timestamp-millis"}, {"type": "long", "logicalType": "timestamp-micros"},
        {}, [(utc(2026, 1, 2, 3, 4, 5, 678000), '"2026-01-02T03:04:05.678Z"')], "TIMESTAMP",
    ),
]


def avro():
    cases = []
    for name, writer, reader, options, values, column in AVRO:
        parsed = fastavro.parse_schema(json.loads(json.dumps(writer)))
        rows = []
        for value, expected in values:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, parsed, value)
            rows.append({"bytes": out.getvalue().hex(), "json": expected})
        cases.append({"name": name, "writer": writer, "reader": reader, "options": options, "type": column, "rows": rows})
    (HERE / "avro.json").write_text(json.dumps(cases, indent=1, ensure_ascii=False) + "\n")


def protobuf():
    from google.protobuf import any_pb2

    with tempfile.TemporaryDirectory() as out:
        protoc = [sys.executable, "-m", "grpc_tools.protoc", f"-I{HERE}", f"--python_out={out}", "shop.proto", "old.proto"]
        subprocess.run(protoc, check=True)
        sys.path.insert(0, out)
        import old_pb2
        import shop_pb2

        order = shop_pb2.Order(id=7, customer="Anna", status=shop_pb2.PAID, card="visa", rating=0, numbers=[1, -1, 300],
                               history=[shop_pb2.NEW, shop_pb2.SHIPPED], blob=b"\x00\xff", price=1.5, weight=0.25, gift=True,
                               small=4294967295, large=18446744073709551615, delta=-3, f32=4000000000, f64=-9)
        order.items.add(sku="a", quantity=2)
        order.items.add()
        order.stock["x"] = 1
        order.stock["b"] = 0
        order.at.FromDatetime(utc(2026, 1, 2, 3, 4, 5, 678901))
        order.took.FromTimedelta(datetime.timedelta(seconds=-1, microseconds=-500000))
        order.main.sku = "m"
        order.note.value = "hello"
        unknown = shop_pb2.Order(id=1, status=9, history=[9])
        node = shop_pb2.Node(value=1)
        node.next.value = 2
        node.next.next.value = 3
        envelope = shop_pb2.Envelope()
        envelope.payload.Pack(shop_pb2.Item(sku="a", quantity=2))
        assert isinstance(envelope.payload, any_pb2.Any)
        cases = {
            "order": order, "empty order": shop_pb2.Order(), "unknown enum": unknown, "node": node, "envelope": envelope,
            "person": old_pb2.Person(name="Bo", grade=old_pb2.HIGH, grades=[old_pb2.LOW, old_pb2.HIGH]),
            "loose": old_pb2.Loose(name="Bo", grade=7, grades=[1, 7, 2]),
            "nameless": old_pb2.Loose(grade=1),
            "outer": shop_pb2.Outer(inner=shop_pb2.Outer.Inner(x=5)),
        }
        made = {name: message.SerializeToString(deterministic=True).hex() for name, message in cases.items()}
        (HERE / "protobuf.json").write_text(json.dumps(made, indent=1) + "\n")


avro()
protobuf()
