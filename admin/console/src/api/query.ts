// Queries in ClickHouse over the rows of a project.

import { call, CallFailure } from './client'

/** Column of an answer. */
export interface Column {
  name: string
  type: string
}

/** Answer of a query. */
export interface QueryAnswer {
  columns: Column[]
  rows: unknown[][]
  /** Figures of ClickHouse. */
  seconds: number
  rowsRead: number
  bytesRead: number
}

interface JsonAnswer {
  meta: Column[]
  data: Record<string, unknown>[]
  statistics: { elapsed: number; rows_read: number; bytes_read: number }
}

/** Bytes of an answer that are shown; longer ones are for downloads. */
export const SHOWN_BYTES_MAX = 32 << 20

/** Formats of downloads, by their media types. */
export const DOWNLOADS = {
  'text/csv': 'CSV',
  'application/x-ndjson': 'NDJSON',
  'application/vnd.apache.parquet': 'Parquet',
} as const

export function queryPath(projectId: number): string {
  return `/api/projects/${projectId}/query/`
}

function request(sql: string, accept: string, queryId?: string, signal?: AbortSignal): RequestInit {
  const body = JSON.stringify({ query: sql, query_id: queryId })
  const headers = { 'Content-Type': 'application/json', Accept: accept }
  return { method: 'POST', headers, body, signal }
}

/** Runs a query. Throws a [`CallFailure`] if it fails, or its answer is too long to show. */
export async function run(
  projectId: number,
  sql: string,
  signal?: AbortSignal,
): Promise<QueryAnswer> {
  const asked = request(sql, 'application/json', undefined, signal)
  const response = await call(queryPath(projectId), asked)
  const parsed = JSON.parse(await text(response)) as JsonAnswer
  const names = parsed.meta.map((column) => column.name)
  return {
    columns: parsed.meta,
    rows: parsed.data.map((row) => names.map((name) => row[name])),
    seconds: parsed.statistics.elapsed,
    rowsRead: parsed.statistics.rows_read,
    bytesRead: parsed.statistics.bytes_read,
  }
}

/** Runs a query and returns its rows as objects. */
export async function rowsOf<Row>(
  projectId: number,
  sql: string,
  signal?: AbortSignal,
): Promise<Row[]> {
  const response = await call(
    queryPath(projectId),
    request(sql, 'application/json', undefined, signal),
  )
  return (JSON.parse(await text(response)) as { data: Row[] }).data
}

/** Answer of a query as a file. */
export async function download(projectId: number, sql: string, accept: string): Promise<Blob> {
  return (await call(queryPath(projectId), request(sql, accept))).blob()
}

/** Text as a literal of ClickHouse's SQL. */
export function literal(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

/** Reads an answer up to its bound. */
async function text(response: Response): Promise<string> {
  const reader = response.body?.getReader()
  if (!reader) return ''
  const decoder = new TextDecoder()
  let [text, bytes] = ['', 0]
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    bytes += next.value.length
    if (bytes > SHOWN_BYTES_MAX) {
      await reader.cancel()
      const detail = 'The answer is longer than 32 MiB. Add a LIMIT to show it, or download it.'
      throw new CallFailure(200, 'answer_too_long', detail)
    }
    text += decoder.decode(next.value, { stream: true })
  }
  return text + decoder.decode()
}
