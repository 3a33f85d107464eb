// Queries that a person saved in this browser, by project.

import { remember, remembered } from '../../state/preferences.svelte'

export interface SavedQuery {
  name: string
  sql: string
}

const SAVED_MAX = 100

export class SavedQueries {
  list = $state<SavedQuery[]>([])
  readonly #name: string

  constructor(projectId: number) {
    this.#name = `queries-${projectId}`
    this.list = remembered<SavedQuery[]>(this.#name, [])
  }

  /** Saves a query in place of one with its name. */
  save(name: string, sql: string): void {
    const others = this.list.filter((one) => one.name !== name)
    this.list = [{ name, sql }, ...others].slice(0, SAVED_MAX)
    remember(this.#name, this.list)
  }

  remove(name: string): void {
    this.list = this.list.filter((one) => one.name !== name)
    remember(this.#name, this.list)
  }
}

/** Queries to begin with. */
export const EXAMPLES: readonly SavedQuery[] = [
  {
    name: 'Events by hour',
    sql: `SELECT toStartOfHour(timestamp) AS hour, count() AS events
FROM events
WHERE timestamp > now() - INTERVAL 7 DAY
GROUP BY hour
ORDER BY hour`,
  },
  {
    name: 'Most frequent events',
    sql: `SELECT event, count() AS events, uniq(distinct_id) AS people
FROM events
GROUP BY event
ORDER BY events DESC
LIMIT 20`,
  },
  {
    name: 'Newest events',
    sql: `SELECT timestamp, event, distinct_id, properties
FROM events
ORDER BY timestamp DESC
LIMIT 100`,
  },
]
