//! Tables and functions that queries may use.

/// Table that a query may select from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Events.
    Events,
    /// Persons, by distinct id.
    Persons,
    /// Groups.
    Groups,
}

impl Source {
    /// All tables.
    pub const ALL: [Self; 3] = [Self::Events, Self::Persons, Self::Groups];

    /// Name of the table in queries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Events => "events",
            Self::Persons => "persons",
            Self::Groups => "groups",
        }
    }

    /// Table of this name; names are case-sensitive, as in ClickHouse.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.name() == name)
    }
}

/// Functions that aggregate rows.
#[rustfmt::skip]
const AGGREGATES: &[&str] = &[
    "any", "anyLast", "argMax", "argMin", "avg", "avgIf", "count", "countIf", "groupArray",
    "groupUniqArray", "max", "maxIf", "median", "min", "minIf", "quantile", "quantiles",
    "stddevPop", "stddevSamp", "sum", "sumIf", "topK", "uniq", "uniqExact", "uniqIf", "varPop",
    "varSamp",
];

/// Functions whose result depends only on their arguments and the time. None reads tables,
/// dictionaries, files, settings or the server's state; none waits.
#[rustfmt::skip]
const FUNCTIONS: &[&str] = &[
    // Conditions and nulls.
    "and", "assumeNotNull", "coalesce", "greatest", "if", "ifNull", "isNotNull", "isNull",
    "least", "multiIf", "not", "nullIf", "or", "toNullable", "xor",
    // Comparisons and arithmetic.
    "abs", "ceil", "cos", "divide", "equals", "exp", "floor", "greater", "greaterOrEquals",
    "intDiv", "less", "lessOrEquals", "log", "log10", "log2", "minus", "modulo", "multiply",
    "negate", "notEquals", "plus", "pow", "round", "sign", "sin", "sqrt", "tan", "trunc",
    // Texts.
    "base64Decode", "base64Encode", "concat", "empty", "endsWith", "extract", "extractAll",
    "hex", "ilike", "left", "length", "lengthUTF8", "like", "lower", "lowerUTF8", "match",
    "notEmpty", "notLike", "position", "positionCaseInsensitive", "replace", "replaceAll",
    "replaceOne", "replaceRegexpAll", "replaceRegexpOne", "reverse", "right", "splitByChar",
    "splitByString", "startsWith", "substring", "substringUTF8", "toString", "trim", "trimBoth",
    "trimLeft", "trimRight", "unhex", "upper", "upperUTF8",
    // URLs.
    "cutQueryString", "cutToFirstSignificantSubdomain", "domain", "domainWithoutWWW",
    "extractURLParameter", "path", "protocol", "queryString",
    // JSON.
    "JSONExtract", "JSONExtractArrayRaw", "JSONExtractBool", "JSONExtractFloat",
    "JSONExtractInt", "JSONExtractKeys", "JSONExtractRaw", "JSONExtractString",
    "JSONExtractUInt", "JSONHas", "JSONLength", "JSONType", "isValidJSON", "toJSONString",
    // Times.
    "addDays", "addHours", "addMinutes", "addMonths", "addSeconds", "addWeeks", "addYears",
    "dateDiff", "dateTrunc", "formatDateTime", "fromUnixTimestamp", "now", "now64",
    "parseDateTimeBestEffort", "parseDateTimeBestEffortOrNull", "subtractDays",
    "subtractHours", "subtractMinutes", "subtractMonths", "subtractWeeks", "toDate",
    "toDateTime", "toDateTime64", "toDayOfMonth", "toDayOfWeek", "toHour", "toISOWeek",
    "toISOYear", "toMinute", "toMonday", "toMonth", "toQuarter", "toSecond", "toStartOfDay",
    "toStartOfHour", "toStartOfInterval", "toStartOfMinute", "toStartOfMonth",
    "toStartOfWeek", "toStartOfYear", "toTimeZone", "toUnixTimestamp",
    "toUnixTimestamp64Micro", "toUnixTimestamp64Milli", "toYYYYMM", "toYYYYMMDD", "toYear",
    "today", "yesterday",
    // Types.
    "toBool", "toDecimal64", "toFloat32", "toFloat64", "toFloat64OrNull", "toFloat64OrZero",
    "toInt16", "toInt32", "toInt64", "toInt64OrNull", "toInt64OrZero", "toInt8", "toTypeName",
    "toUInt16", "toUInt32", "toUInt64", "toUInt8", "toUUID", "toUUIDOrNull",
    // Arrays, tuples, maps.
    "array", "arrayConcat", "arrayDistinct", "arrayElement", "arrayJoin", "arraySlice",
    "arraySort", "arrayStringConcat", "arraySum", "has", "hasAll", "hasAny", "indexOf", "map",
    "mapKeys", "mapValues", "tuple", "tupleElement",
    // Hashes.
    "MD5", "SHA256", "cityHash64", "sipHash64", "xxHash64",
];

/// Kind of a function; `None` if queries may not call it. Names are compared without case, as some
/// functions of ClickHouse are case-insensitive.
pub(super) fn function(name: &str) -> Option<FunctionKind> {
    let is_in = |list: &[&str]| list.iter().any(|known| known.eq_ignore_ascii_case(name));
    if is_in(FUNCTIONS) {
        return Some(FunctionKind::OfRow);
    }
    is_in(AGGREGATES).then_some(FunctionKind::Aggregate)
}

/// Kind of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FunctionKind {
    /// One value per row.
    OfRow,
    /// One value of many rows.
    Aggregate,
}

/// Lists every function that queries may call, and whether it aggregates rows.
pub fn functions() -> impl Iterator<Item = (&'static str, bool)> {
    let of_rows = FUNCTIONS.iter().map(|name| (*name, false));
    of_rows.chain(AGGREGATES.iter().map(|name| (*name, true)))
}
