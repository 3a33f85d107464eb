// Live stream of a project: server-sent events by `fetch`, as `EventSource` sends no header.

import { EventSourceParserStream } from 'eventsource-parser/stream'
import { call, CallFailure } from './client'
import { isAbort } from './failure'
import type { LiveEvent, LiveRate } from './pending'

/** Filters of a stream, as the query's parameters. */
export interface LiveFilter {
  event?: string
  distinct_id?: string
  fate?: string
  code?: string
  $lib?: string
  property?: string
}

/** Receiver of a stream's messages. */
export interface LiveReceiver {
  opened(): void
  event(event: LiveEvent): void
  stored(ids: string[]): void
  rate(rate: LiveRate): void
  /** The stream broke off, and is opened again; `failure` is the reason, if the server told one. */
  broken(failure: CallFailure | null): void
}

const WAIT_MS = 1_000
const WAIT_MS_MAX = 15_000

/** Path of a project's stream. */
export function livePath(projectId: number, filter: LiveFilter): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(filter)) if (value) query.append(name, value)
  const asked = query.toString()
  return `/api/projects/${projectId}/live/${asked && `?${asked}`}`
}

/** Watches a project until `signal` aborts; comes back after breaks, behind the last event seen. */
export async function watch(
  projectId: number,
  filter: LiveFilter,
  receiver: LiveReceiver,
  signal: AbortSignal,
): Promise<void> {
  let lastId: string | null = null
  let waitMs = WAIT_MS
  while (!signal.aborted) {
    try {
      const headers: Record<string, string> = { Accept: 'text/event-stream' }
      if (lastId) headers['Last-Event-ID'] = lastId
      const response = await call(livePath(projectId, filter), { headers, signal })
      receiver.opened()
      waitMs = WAIT_MS
      lastId = await read(response, receiver, lastId)
      receiver.broken(null)
    } catch (cause) {
      if (isAbort(cause) || signal.aborted) return
      const failure = cause instanceof CallFailure ? cause : null
      receiver.broken(failure)
      if (failure && isFinal(failure)) return
      waitMs = Math.min(waitMs * 2, WAIT_MS_MAX)
    }
    await pause(waitMs, signal)
  }
}

/** Reads messages to the stream's end; returns the id of the last event. */
async function read(
  response: Response,
  receiver: LiveReceiver,
  lastId: string | null,
): Promise<string | null> {
  if (!response.body) return lastId
  const messages = response.body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array<ArrayBuffer>>)
    .pipeThrough(new EventSourceParserStream())
    .getReader()
  for (let next = await messages.read(); !next.done; next = await messages.read()) {
    const { event, id, data } = next.value
    if (event === 'event') receiver.event(JSON.parse(data) as LiveEvent)
    else if (event === 'stored') receiver.stored((JSON.parse(data) as { ids: string[] }).ids)
    else if (event === 'rate') receiver.rate(JSON.parse(data) as LiveRate)
    if (id) lastId = id
  }
  return lastId
}

/** Returns true if the stream will not open by trying again. */
function isFinal(failure: CallFailure): boolean {
  return [400, 401, 403, 404].includes(failure.status)
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true })
  })
}
