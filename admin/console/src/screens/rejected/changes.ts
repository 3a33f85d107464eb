// Changes of a resend, as a person edits an event.

/** Changes that the API makes of an event before it is sent again. */
export interface Changes {
  set: Record<string, unknown>
  drop: string[]
}

const PROPERTIES = 'properties'

/** Object of an event's JSON; `null` if it is none. */
export function objectOf(json: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(json)
    const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
    return isObject ? (value as Record<string, unknown>) : null
  } catch {
    return null
  }
}

/** Changes that make one event of the other: fields by their names, properties one by one. */
export function changesOf(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
): Changes {
  const changes: Changes = { set: {}, drop: [] }
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, now] = [before[name], after[name]]
    if (name === PROPERTIES && isRecord(old) && isRecord(now)) {
      compare(old, now, `${PROPERTIES}.`, changes)
    } else {
      note(old, now, name, changes)
    }
  }
  return changes
}

function compare(
  before: Record<string, unknown>,
  after: Record<string, unknown>,
  prefix: string,
  changes: Changes,
): void {
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    note(before[name], after[name], prefix + name, changes)
  }
}

function note(old: unknown, now: unknown, name: string, changes: Changes): void {
  if (now === undefined) changes.drop.push(name)
  else if (JSON.stringify(old) !== JSON.stringify(now)) changes.set[name] = now
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Value of a field as a person writes it: JSON where it is JSON, otherwise a text. */
export function valueOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
