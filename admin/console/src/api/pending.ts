// Types of operations that the document behind schema.d.ts does not have yet: written by hand from
// admin/src/routes. `npm run types` with a newer document makes them superfluous; then this file goes.

interface Parameters<Query, Path> {
  query?: Query
  path: Path
  header?: never
  cookie?: never
}

interface Answers<Body> {
  200: { headers: Record<string, unknown>; content: { 'application/json': Body } }
}

interface Get<Query, Path, Body> {
  parameters: Parameters<Query, Path>
  requestBody?: never
  responses: Answers<Body>
}

interface Post<Path, Sent, Body> {
  parameters: Parameters<never, Path>
  requestBody: { content: { 'application/json': Sent } }
  responses: Answers<Body>
}

interface InProject {
  project_id: string
}

/** Numbers of events. */
export interface EventCounts {
  accepted: number
  rejected: number
  historical: number
  bytes: number
}

/** Numbers of events of one step and group. */
export interface EventStatsStep extends EventCounts {
  at: string
  name: string | null
}

/** Numbers of events by time. */
export interface EventStats {
  step: StatsStep
  after: string
  before: string
  since: string
  accepted_until: string
  rejected_until: string
  totals: EventCounts
  results: EventStatsStep[]
}

export type StatsStep = 'minute' | 'hour' | 'day'

interface StatsQuery {
  step?: StatsStep
  after?: string
  before?: string
  by?: string
}

/** Rejected event, without its JSON. */
export interface RejectedEvent {
  id: string
  request_id: string
  index: number
  received_at: string
  code: string
  attr: string | null
  detail: string
  historical_migration: boolean
  resent_at: string | null
}

/** Rejected event with its JSON as it was sent. */
export interface RejectedEventWithJson extends RejectedEvent {
  raw: string
  raw_bytes: number
}

/** Rejected events with one code. */
export interface RejectedEventGroup {
  code: string
  events: number
  unsent: number
  first_received_at: string
  last_received_at: string
  newest_id: string
  newest_detail: string
}

export interface RejectedQuery {
  code?: string
  after?: string
  before?: string
  request_id?: string
  unsent?: boolean
}

/** Resend of rejected events, with changes. */
export interface NewResend {
  events?: string[]
  code?: string
  after?: string
  before?: string
  request_id?: string
  resent?: boolean
  limit?: number
  rename?: Record<string, string>
  drop?: string[]
  set?: Record<string, unknown>
  dry_run?: boolean
}

/** Outcome of one event of a resend. */
export interface ResentEvent {
  id: string
  outcome: 'accepted' | 'rejected' | 'unsendable' | 'already_sent' | 'in_doubt'
  detail: string | null
  event: string | null
}

/** Outcome of a resend. */
export interface Resend {
  dry_run: boolean
  selected: number
  accepted: number
  rejected: number
  not_tried: number
  stopped: string | null
  results: ResentEvent[]
}

/** Event of a live stream. */
export interface LiveEvent {
  id: string
  fate: 'logged' | 'stored' | 'rejected'
  uuid: string | null
  event: string | null
  distinct_id: string | null
  timestamp: string | null
  received_at: string | null
  historical_migration: boolean
  lib: string | null
  lib_version: string | null
  bytes: number
  key: string | null
  client_ip?: string
  code: string | null
  attr: string | null
  detail: string | null
  warnings: string[] | null
  properties: Record<string, unknown> | null
}

/** Numbers of the last second of a live stream. */
export interface LiveRate {
  events: number
  unseen: number
  matching: number
  shown: number
  dropped: number
  nodes: number
  nodes_missing: number
}

interface Page<Item> {
  count: number
  next: string | null
  previous: string | null
  results: Item[]
}

interface PageQuery {
  limit?: number
  offset?: number
}

export interface PendingPaths {
  '/api/projects/{project_id}/stats/': { get: Get<StatsQuery, InProject, EventStats> }
  '/api/organizations/{organization_id}/stats/': {
    get: Get<StatsQuery, { organization_id: string }, EventStats>
  }
  '/api/projects/{project_id}/rejected_events/': {
    get: Get<RejectedQuery & PageQuery, InProject, Page<RejectedEvent>>
  }
  '/api/projects/{project_id}/rejected_events/groups/': {
    get: Get<RejectedQuery, InProject, { results: RejectedEventGroup[] }>
  }
  '/api/projects/{project_id}/rejected_events/{id}/': {
    get: Get<never, InProject & { id: string }, RejectedEventWithJson>
  }
  '/api/projects/{project_id}/rejected_events/resend/': {
    post: Post<InProject, NewResend, Resend>
  }
}
