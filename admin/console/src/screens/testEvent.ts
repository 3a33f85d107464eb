// An event that the console sends, to see that events arrive.

import { CallFailure } from '../api/client'

/** Event as clients send it. */
export function testEvent(): { event: string; distinct_id: string; properties: object } {
  return {
    event: 'test event',
    distinct_id: 'console',
    properties: { $lib: 'millrace-console', sent_from: 'the console' },
  }
}

/** Sends an event to a project. Throws a [`CallFailure`] unless it was accepted. */
export async function sendEvent(ingestUrl: string, key: string, event: object): Promise<void> {
  let response: Response
  try {
    const body = JSON.stringify({ api_key: key, batch: [event] })
    const headers = { 'Content-Type': 'application/json' }
    response = await fetch(`${ingestUrl}/batch/`, { method: 'POST', headers, body })
  } catch {
    const detail = `${ingestUrl} does not answer. Is it the address that clients send events to?`
    throw new CallFailure(0, 'unreachable', detail)
  }
  if (response.ok) return
  const answered = (await response.json().catch(() => ({}))) as { detail?: string; code?: string }
  const detail = answered.detail ?? `The server answers with status ${response.status}.`
  throw new CallFailure(response.status, answered.code ?? 'unknown', detail)
}
