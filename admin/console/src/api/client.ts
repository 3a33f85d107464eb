// Calls of the organization API, with types of its document.

import createClient, { type Client } from 'openapi-fetch'
import { authorization, forget } from './credentials'
import { CallFailure, failureOf, isAbort, unreachable } from './failure'
import type { PendingPaths } from './pending'
import type { paths } from './schema'

export type Paths = paths & Omit<PendingPaths, keyof paths>

/** Client whose calls answer with data or an error; give them to [`answer`]. */
export const client: Client<Paths> = createClient<Paths>({ baseUrl: '/', fetch: send })

/** Address of the API for people who call it themselves. */
export const API_URL = location.origin

/** Sends a request with the caller's credentials; a refusal of these ends the session. */
async function send(request: Request): Promise<Response> {
  for (const [name, value] of Object.entries(authorization())) request.headers.set(name, value)
  return watched(await fetch(request))
}

/** Calls a path whose answer is no JSON document, such as a stream. Throws unless it succeeds. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  try {
    const headers = { ...authorization(), ...(init.headers as Record<string, string>) }
    const response = watched(await fetch(path, { ...init, headers }))
    if (response.ok) return response
    throw failureOf(response, await response.json().catch(() => null))
  } catch (cause) {
    throw isAbort(cause) ? cause : unreachable(cause)
  }
}

function watched(response: Response): Response {
  if (response.status === 401) forget()
  return response
}

/** Outcome of a call of [`client`]. */
interface Outcome<Data> {
  data?: Data
  error?: unknown
  response: Response
}

/** Data of an answer. Throws a [`CallFailure`] if the call failed. */
export async function answer<Data>(calling: Promise<Outcome<Data>>): Promise<NonNullable<Data>> {
  let outcome: Outcome<Data>
  try {
    outcome = await calling
  } catch (cause) {
    throw isAbort(cause) ? cause : unreachable(cause)
  }
  if (!outcome.response.ok) throw failureOf(outcome.response, outcome.error)
  return outcome.data as NonNullable<Data>
}

export { CallFailure }
