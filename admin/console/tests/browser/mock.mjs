// Answers of operations that a server without live streams, numbers and rejected events lacks. For
// work on the pages alone: `make test` runs them against the real server.

const HOUR_MS = 3_600_000
const STEPS = { minute: 60_000, hour: HOUR_MS, day: 24 * HOUR_MS }
const NAMES = {
  event: ['$pageview', 'signed up', 'purchased', null],
  sdk: ['web', 'posthog-python', null],
}
const CODES = {
  missing_distinct_id: ['distinct_id', 'The event has no distinct_id.'],
  invalid_timestamp: ['timestamp', 'The timestamp "yesterday" is not ISO 8601.'],
  missing_event: ['event', 'The event has no name. Set `event` to a text of 1 to 200 characters.'],
}
const RAW = {
  event: 'signed up',
  timestamp: 'yesterday',
  properties: { plan: 'team', user: 'ada' },
}
const resent = new Set()
const watchers = new Set()
let number = 0

/** Answers a request; returns false if the real server is to. */
export function mocked(request, response, url, body) {
  const [, project, rest] = /^\/api\/projects\/(\d+)\/(.*)$/.exec(url.pathname) ?? []
  if (!project || !request.headers.authorization) return false
  const send = (value, status = 200) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    return true
  }
  const isEmpty = project !== '1'
  if (rest === 'stats/') return send(stats(url.searchParams, isEmpty))
  if (rest === 'live/') return live(response, url.searchParams)
  if (!rest.startsWith('rejected_events/')) return false
  const events = isEmpty ? [] : rejected()
  if (rest.endsWith('groups/')) return send({ results: isEmpty ? [] : groups(events) })
  if (rest.endsWith('resend/')) return send(resend(JSON.parse(body), events))
  if (rest === 'rejected_events/') {
    const code = url.searchParams.get('code')
    return send(
      page(
        events.filter((event) => !code || event.code === code),
        url,
      ),
    )
  }
  const found = events.find((event) => rest === `rejected_events/${event.id}/`)
  if (!found) return send({ type: 'x', code: 'not_found', detail: 'Not found.', attr: null }, 404)
  const raw = JSON.stringify(RAW)
  return send({ ...found, raw, raw_bytes: raw.length })
}

/** Shows an event to everybody who watches, as the server does once it is logged. */
export function show(event, fate = 'logged', more = {}) {
  const id = `${++number}-mock`
  const at = new Date().toISOString()
  const properties = event.properties ?? {}
  const shown = {
    id,
    fate,
    uuid: crypto.randomUUID(),
    event: event.event ?? null,
    distinct_id: event.distinct_id ?? null,
    timestamp: at,
    received_at: at,
    historical_migration: false,
    lib: properties.$lib ?? null,
    lib_version: properties.$lib_version ?? null,
    bytes: JSON.stringify(event).length,
    key: 'phc_...1a2b',
    client_ip: '192.0.2.7',
    code: null,
    attr: null,
    detail: null,
    warnings: [],
    properties,
    ...more,
  }
  for (const watcher of watchers) watcher.event(shown)
  const store = () => watchers.forEach((watcher) => watcher.stored([id]))
  if (fate === 'logged') setTimeout(store, 800)
}

function live(response, filters) {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write('retry: 1000\n\n')
  let events = 0
  const say = (name, data, id) => {
    const head = id ? `event: ${name}\nid: ${id}` : `event: ${name}`
    response.write(`${head}\ndata: ${JSON.stringify(data)}\n\n`)
  }
  const isWanted = (event) =>
    ['event', 'distinct_id', 'code', 'fate'].every((name) => {
      const wanted = filters.get(name)
      return !wanted || wanted === event[name]
    })
  const watcher = {
    event(event) {
      events += 1
      if (isWanted(event)) say('event', event, event.id)
    },
    stored: (ids) => say('stored', { ids }),
  }
  const timer = setInterval(() => {
    const counts = { events, unseen: 0, matching: events, shown: events, dropped: 0 }
    say('rate', { ...counts, nodes: 1, nodes_missing: 0 })
    events = 0
  }, 1_000)
  watchers.add(watcher)
  response.on('close', () => (watchers.delete(watcher), clearInterval(timer)))
  return true
}

function stats(query, isEmpty) {
  const step = query.get('step') ?? 'hour'
  const size = STEPS[step]
  const before = Math.ceil(Date.now() / size) * size
  const span = step === 'minute' ? HOUR_MS : 24 * HOUR_MS
  const asked = query.get('after')
  const after = asked ? Math.floor(Date.parse(asked) / size) * size : before - span
  const by = query.get('by')
  const names = by === 'code' ? Object.keys(CODES) : (NAMES[by] ?? [null])
  const totals = { accepted: 0, rejected: 0, historical: 0, bytes: 0 }
  const results = []
  for (let at = after; !isEmpty && at < before; at += size) {
    for (const [index, name] of names.entries()) {
      const wave = 1.4 + Math.sin(at / (7 * size)) + Math.sin(at / (3.1 * size)) / 3
      const accepted = by === 'code' ? 0 : Math.round((wave * size) / 9_000 / (index + 1))
      const few = Math.round((wave * size) / 3_000_000 / (index + 1))
      const rejected = by === 'code' ? few : Math.round(accepted / 90)
      const sum = { accepted, rejected, historical: 0, bytes: accepted * 310 }
      for (const [key, value] of Object.entries(sum)) totals[key] += value
      results.push({ at: new Date(at).toISOString(), name, ...sum })
    }
  }
  const times = { after: new Date(after).toISOString(), before: new Date(before).toISOString() }
  const until = new Date(Date.now() - 90_000).toISOString()
  const counted = { since: times.after, accepted_until: until, rejected_until: until }
  return { step, ...times, ...counted, totals, results }
}

function rejected() {
  return Object.entries(CODES).flatMap(([code, [attr, detail]], kind) =>
    Array.from({ length: 27 - kind * 9 }, (_, index) => {
      const end = String(kind * 30 + index).padStart(2, '0')
      const request_id = `0190f5fe-4e1a-7c3f-8a1b-2c3d4e5f60${end}`
      const id = `${request_id}_${index}`
      const ago = (index + 1) * (kind + 2) * 600_000
      return {
        id,
        request_id,
        index,
        received_at: new Date(Date.now() - ago).toISOString(),
        code,
        attr: `batch[${index}].${attr}`,
        detail,
        historical_migration: false,
        resent_at: resent.has(id) ? new Date().toISOString() : null,
      }
    }),
  )
}

function groups(all) {
  return Object.keys(CODES).map((code) => {
    const events = all.filter((event) => event.code === code)
    const [newest, oldest] = [events[0], events.at(-1)]
    return {
      code,
      events: events.length,
      unsent: events.filter((event) => !event.resent_at).length,
      first_received_at: oldest.received_at,
      last_received_at: newest.received_at,
      newest_id: newest.id,
      newest_detail: newest.detail,
    }
  })
}

function resend(body, all) {
  const isChosen = (event) =>
    body.events ? body.events.includes(event.id) : event.code === body.code && !event.resent_at
  const chosen = all.filter(isChosen)
  const fields = [...Object.keys({ ...body.set, ...body.rename }), ...(body.drop ?? [])]
  const isMended = fields.length > 0
  const dry_run = body.dry_run !== false
  const results = chosen.map((event, index) => ({
    id: event.id,
    outcome: isMended ? 'accepted' : 'rejected',
    detail: isMended ? null : event.detail,
    event: dry_run && index < 10 ? JSON.stringify({ event: 'signed up', ...body.set }) : null,
  }))
  if (!dry_run && isMended) for (const event of chosen) resent.add(event.id)
  const accepted = isMended ? chosen.length : 0
  const rejected = chosen.length - accepted
  const counts = { selected: chosen.length, accepted, rejected, not_tried: 0, stopped: null }
  return { dry_run, ...counts, results }
}

function page(events, url) {
  const number = (name) => Number(url.searchParams.get(name) ?? 0)
  const offset = number('offset')
  const results = events.slice(offset, offset + (number('limit') || 100))
  return { count: events.length, next: null, previous: null, results }
}
