// ClickHouse's SQL for the editor.

import { SQLDialect } from '@codemirror/lang-sql'

const KEYWORDS = `
  all and anti any array as asc asof between by case cross cube desc distinct else end except exists
  explain false fill final first format from full global group having if ilike in inner intersect
  interpolate interval is join last lateral left like limit not null nulls offset on or order outer
  over partition prewhere qualify right rollup rows sample select semi settings step then ties to
  totals true union using when where window with`
const TYPES = `
  array bool date date32 datetime datetime64 decimal enum float32 float64 int8 int16 int32 int64 json
  lowcardinality map nullable string tuple uint8 uint16 uint32 uint64 uuid`
const FUNCTIONS = `
  abs any anyLast argMax argMin arrayCount arrayDistinct arrayExists arrayFilter arrayJoin arrayMap
  arraySort arrayStringConcat avg ceil coalesce concat count countIf dateDiff dateTrunc domain
  empty extract floor formatDateTime fromUnixTimestamp groupArray groupUniqArray has if ifNull
  intDiv isNull isValidJSON JSONExtract JSONExtractArrayRaw JSONExtractBool JSONExtractFloat
  JSONExtractInt JSONExtractKeys JSONExtractKeysAndValuesRaw JSONExtractRaw JSONExtractString JSONHas
  JSONType least greatest length lower max maxIf median min minIf multiIf notEmpty now now64 path
  position quantile quantiles rank replaceAll round rowNumber row_number sequenceCount sequenceMatch
  splitByChar startsWith endsWith substring sum sumIf toDate toDateTime toFloat64 toFloat64OrNull
  toHour toInt64 toInt64OrNull toMonday toStartOfDay toStartOfFiveMinutes toStartOfHour
  toStartOfInterval toStartOfMinute toStartOfMonth toStartOfWeek toString today topK uniq uniqExact
  upper windowFunnel yesterday`

const words = (text: string) => text.trim().split(/\s+/).join(' ')

export const CLICKHOUSE = SQLDialect.define({
  keywords: words(KEYWORDS),
  types: words(TYPES),
  builtin: words(FUNCTIONS),
  backslashEscapes: true,
  hashComments: true,
  identifierQuotes: '`"',
  doubleQuotedStrings: false,
  caseInsensitiveIdentifiers: false,
})
