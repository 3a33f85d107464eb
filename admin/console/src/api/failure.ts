// Failures of calls: the errors of the API, and a server that does not answer.

/** Failure of a call, with the words of the API. */
export class CallFailure extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly attr: string | null = null,
    readonly requestId: string | null = null,
    /** Position of a syntax error in a query, in bytes from 1. */
    readonly position: number | null = null,
    /** Time after which to try again, in seconds. */
    readonly retryAfterSeconds: number | null = null,
  ) {
    super(detail)
    this.name = 'CallFailure'
  }
}

/** Failure for an answer without success; `body` is its JSON, if it has one. */
export function failureOf(response: Response, body: unknown): CallFailure {
  const retryAfter = Number(response.headers.get('retry-after'))
  const error = isRecord(body) ? body : {}
  const clickhouse = isRecord(error.clickhouse) ? error.clickhouse : {}
  return new CallFailure(
    response.status,
    text(error.code) ?? 'unknown',
    text(error.detail) ?? `The server answers with status ${response.status}.`,
    text(error.attr),
    response.headers.get('x-request-id'),
    typeof clickhouse.position === 'number' ? clickhouse.position : null,
    retryAfter > 0 ? retryAfter : null,
  )
}

/** Failure for an exception of `fetch`. */
export function unreachable(cause: unknown): CallFailure {
  if (cause instanceof CallFailure) return cause
  const detail = 'The server does not answer. Check that Millrace runs, and your connection to it.'
  return new CallFailure(0, 'unreachable', detail)
}

/** Returns true for the exception of a call that was aborted. */
export function isAbort(cause: unknown): boolean {
  return cause instanceof DOMException && cause.name === 'AbortError'
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
