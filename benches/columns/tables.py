"""The three tables that are compared, and the events in them."""

# Columns of events as Millrace stores them, and their order.
BASE = """
    uuid UUID,
    event LowCardinality(String),
    timestamp DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    team_id Int64,
    distinct_id String CODEC(ZSTD(1)),
    created_at DateTime64(6, 'UTC') CODEC(Delta(8), ZSTD(1)),
    historical_migration Bool,
    properties {properties}{more}
"""
ENGINE = """ENGINE = ReplacingMergeTree(created_at)
    PARTITION BY toYYYYMM(timestamp)
    ORDER BY (team_id, toDate(timestamp), event, cityHash64(distinct_id), cityHash64(uuid))"""

# Properties as columns: name, property, type, and the function that reads it from the text.
COLUMNS = [
    ("property_1", "plan", "LowCardinality(String)", "JSONExtractString"),
    ("property_2", "$browser", "LowCardinality(String)", "JSONExtractString"),
    ("property_3", "$os", "LowCardinality(String)", "JSONExtractString"),
    ("property_4", "$current_url", "String", "JSONExtractString"),
    ("property_5", "price", "Nullable(Float64)", "JSONExtractFloat"),
    ("property_6", "$screen_width", "Nullable(Int64)", "JSONExtractInt"),
    ("property_7", "$is_identified", "Nullable(Bool)", "JSONExtractBool"),
]

# An event of about 1 kB with 25 properties, as browsers send it. `n` is its number.
EVENTS = """
    SELECT
        toUUID(concat('0191f99b-b499-70c4-', substring(lower(hex(intHash64(n))), 1, 4), '-',
            leftPad(lower(hex(n)), 12, '0'))) AS uuid,
        arrayElement(['$pageview', '$pageview', '$pageview', 'signed up', 'added to cart',
            'paid'], 1 + intHash32(n) % 6) AS event,
        toDateTime64('2026-10-01 00:00:00', 6, 'UTC') + toIntervalSecond(intHash32(n + 7) % 5184000)
            AS timestamp,
        toInt64(1) AS team_id,
        concat('user-', toString(intHash32(intDiv(n, 10)) % {users})) AS distinct_id,
        timestamp + toIntervalMillisecond(40) AS created_at,
        false AS historical_migration,
        concat(
            '{{"n":', toString(n),
            ',"$current_url":"https://shop.example.com/products/', toString(intHash32(n) % 5000),
            '?ref=mail","$host":"shop.example.com","$pathname":"/products/',
            toString(intHash32(n) % 5000), '","$browser":"',
            arrayElement(['Chrome', 'Safari', 'Firefox', 'Edge'], 1 + intHash32(n + 1) % 4),
            '","$browser_version":', toString(90 + intHash32(n + 2) % 40), ',"$os":"',
            arrayElement(['Mac OS X', 'Windows', 'Linux', 'iOS', 'Android'],
                1 + intHash32(n + 3) % 5),
            '","$os_version":"10.15.7","$device_type":"Desktop","$screen_height":',
            toString(600 + intHash32(n + 4) % 900), ',"$screen_width":',
            toString(800 + intHash32(n + 5) % 1800),
            ',"$lib":"web","$lib_version":"1.398.0","$insert_id":"', hex(intHash64(n)),
            '","$session_id":"', hex(intHash64(intDiv(n, 10))), '","$time":1790000000.',
            toString(n % 1000), ',"$is_identified":', if(n % 3 = 0, 'true', 'false'),
            ',"$referrer":"$direct","$timezone":"Europe/Berlin","city":"Köln – Ehrenfeld","price":',
            toString(round((intHash32(n + 6) % 100000) / 100, 2)),
            ',"tags":["new","sale",null],"cart":{{"items":', toString(1 + n % 7),
            ',"currency":"EUR"}},"plan":"',
            arrayElement(['free', 'team', 'business'], 1 + intHash32(intDiv(n, 10)) % 3),
            '","t":"', repeat('primary banner click footer nav ', 10), '"}}'
        ) AS properties
    FROM (SELECT number + {first} AS n FROM numbers({rows}))
"""


def extracted(name, function):
    """A property by its text."""
    return f"{function}(properties, '{name}')"


# Subcolumn of the JSON type for each kind of function.
JSON_TYPES = {
    "JSONExtractString": "String",
    "JSONExtractFloat": "Float64",
    "JSONExtractInt": "Int64",
    "JSONExtractBool": "Bool",
}


def by_text():
    """Properties by JSONExtract, by their names."""
    return {name: extracted(name, function) for _, name, _, function in COLUMNS}


def by_json():
    """Properties as subcolumns of the JSON type; other types of a path are null."""

    def subcolumn(name, function):
        kind = JSON_TYPES[function]
        if kind == "Float64":
            # A path has whole numbers as Int64 beside the others.
            return f"CAST(properties.`{name}`, 'Nullable(Float64)')"
        return f"properties.`{name}`.:{kind}"

    return {name: subcolumn(name, function) for _, name, _, function in COLUMNS}


def by_column():
    """Properties as columns of their own."""
    return {name: column for column, name, _, _ in COLUMNS}


def definition(column, name, kind, function):
    """Column with the default that Millrace gives it, for rows that come without a value."""
    value = extracted(name, function)
    if kind.startswith("Nullable"):
        value = f"if(JSONHas(properties, '{name}'), {value}, NULL)"
    return f",\n    {column} {kind} DEFAULT {value} CODEC(ZSTD(1))"


TABLES = [
    {
        "name": "by_text",
        "label": "String, JSONExtract",
        "properties": "String CODEC(ZSTD(1))",
        "more": "",
        "access": by_text(),
    },
    {
        "name": "by_json",
        "label": "ClickHouse's JSON type",
        "properties": "JSON CODEC(ZSTD(1))",
        "more": "",
        "access": by_json(),
    },
    {
        "name": "by_column",
        "label": "Property columns",
        "properties": "String CODEC(ZSTD(1))",
        "more": "".join(definition(*column) for column in COLUMNS),
        "access": by_column(),
    },
]


def create(table):
    """Statement that makes a table."""
    columns = BASE.format(properties=table["properties"], more=table["more"])
    return f"CREATE TABLE columns.{table['name']} ({columns}) {ENGINE}"


def block(first, rows, users, with_columns):
    """Query of a block of events; with values of the property columns, as shippers send them."""
    events = EVENTS.format(first=first, rows=rows, users=users)
    more = ""
    if with_columns:
        values = (f"{extracted(name, function)} AS {column}" for column, name, _, function in COLUMNS)
        more = ", " + ", ".join(values)
    order = "team_id, toDate(timestamp), event, cityHash64(distinct_id), cityHash64(uuid)"
    return f"SELECT *{more} FROM ({events}) ORDER BY {order}"
