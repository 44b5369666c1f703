"""Makes the .orc files beside it and rows.json; see README.md."""

import datetime
import decimal
import json
import pathlib

import pyarrow as pa
from pyarrow import orc

HERE = pathlib.Path(__file__).parent
UTC = datetime.timezone.utc
decimal.getcontext().prec = 40

SCHEMA = pa.schema([
    ("id", pa.int64()),
    ("yes", pa.bool_()),
    ("tiny", pa.int8()),
    ("small", pa.int16()),
    ("whole", pa.int32()),
    ("big", pa.int64()),
    ("single", pa.float32()),
    ("real", pa.float64()),
    ("price", pa.decimal128(10, 2)),
    ("wide", pa.decimal128(38, 10)),
    ("day", pa.date32()),
    ("wall", pa.timestamp("us")),
    ("moment", pa.timestamp("us", "UTC")),
    ("name", pa.string()),
    ("raw", pa.binary()),
    ("tags", pa.list_(pa.string())),
    ("sizes", pa.map_(pa.string(), pa.int32())),
    ("inner", pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string()), ("t", pa.timestamp("us", "UTC"))]))])),
    ("points", pa.list_(pa.struct([("x", pa.float64()), ("at", pa.timestamp("us"))]))),
])

DAYS = ["2026-03-29", "1969-12-31", "1582-10-04", "0001-01-01", "9999-12-31", "1900-02-28"]
# No nanoseconds in 64 bits reach 1582, 2262-04-12 or 9999.
TIMES = [
    "2026-03-29T01:59:59.123456", "1969-12-30T23:59:59.999999", "1582-10-04T00:00:00.000001", "2262-04-12T00:00:00",
    "9999-12-31T23:59:59.999999", "1970-01-01T00:00:00.500000", "2026-10-25T00:30:00",
]
NAMES = ["", "ü, \"q\" \\ ' line", "plain", "x" * 300]


def value(i):
    """Row i; every fifth has nothing but its id."""
    if i % 5 == 4:
        return {"id": i}
    wall = datetime.datetime.fromisoformat(TIMES[i % len(TIMES)])
    later = wall if wall.year == 9999 else wall + datetime.timedelta(seconds=i)
    sign = -1 if i % 2 else 1
    return {
        "id": i,
        "yes": i % 3 == 0,
        "tiny": sign * (i % 128),
        "small": sign * i * 300,
        "whole": sign * i * 35_000_000,
        "big": sign * (i * 10**17 + 1),
        "single": sign * i * 0.5,
        "real": sign * i * 0.125,
        "price": decimal.Decimal(sign * (i * 101 + 7)).scaleb(-2),
        "wide": decimal.Decimal(sign * (10**37 + i)).scaleb(-10),
        "day": datetime.date.fromisoformat(DAYS[i % len(DAYS)]),
        "wall": wall,
        "moment": later.replace(tzinfo=UTC),
        "name": NAMES[i % len(NAMES)],
        "raw": bytes([i, 0, 255]),
        "tags": [None if k % 3 == 2 else f"t{k}" for k in range(i % 4)],
        "sizes": [(f"k{k}", None if k == 1 else k * i) for k in range(i % 3)],
        "inner": None if i % 7 == 3 else {"a": i, "b": None if i % 7 == 5 else {"c": NAMES[i % 2 + 1], "t": wall.replace(tzinfo=UTC)}},
        "points": [{"x": i / 4, "at": wall}, None] if i % 2 else [],
    }


def plain(value):
    """A value as JSON that says everything about it."""
    match value:
        case datetime.datetime():
            return value.replace(tzinfo=None).isoformat(timespec="microseconds")
        case datetime.date():
            return value.isoformat()
        case decimal.Decimal():
            return f"{value:f}"
        case bytes():
            return value.hex()
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case _:
            return value


def row(i):
    texts = {name: plain(value(i).get(name)) for name in SCHEMA.names}
    if texts["sizes"] is not None:
        texts["sizes"] = dict(texts["sizes"])
    return texts


def table(numbers):
    return pa.Table.from_pylist([value(i) for i in numbers], schema=SCHEMA)


def many(rows):
    """Few columns and many rows: stripes, dictionaries, runs of every kind."""
    numbers = list(range(rows))
    return pa.table({
        "id": pa.array(numbers, pa.int64()),
        "word": pa.array([None if i % 11 == 0 else f"word {i * i % 37}" for i in numbers], pa.string()),
        "jumps": pa.array([(i * 7919) % 10_007 if i % 100 else 1 << 40 for i in numbers], pa.int64()),
        "same": pa.array([i // 1000 for i in numbers], pa.int32()),
        "lists": pa.array([list(range(i % 5)) if i % 13 else None for i in numbers], pa.list_(pa.int32())),
    })


def write(name, table, **options):
    orc.write_table(table, str(HERE / f"{name}.orc"), **options)


for compression in ["uncompressed", "zlib", "snappy", "zstd", "lz4"]:
    write(f"types-{compression}", table(range(60)), compression=compression)
write("old", table(range(60)), compression="zlib", file_version="0.11")
write("empty", table([]), compression="zlib")
write("many", many(12_000), compression="zlib", stripe_size=1, batch_size=2500, dictionary_key_size_threshold=0.8)
rows = ",\n".join(json.dumps(row(i), ensure_ascii=False) for i in range(60))
(HERE / "rows.json").write_text(f"[\n{rows}\n]\n")
