// What is wrong with a project, in sentences.

import type { BatchExport, EventStats } from '../../api/types'
import { counted, percent } from '../../format/number'
import { duration } from '../../format/time'
import { projectPath } from '../../state/routes'

export interface Warning {
  tone: 'warn' | 'bad'
  title: string
  text: string
  action: string
  href: string
}

/** Age of numbers beyond which ClickHouse lags. */
export const LAG_MS_MAX = 5 * 60_000
/** Share of rejected events that is worth a look. */
const REJECTED_SHARE_MAX = 0.01
/** Time in which an export's newest window should have run, beyond its end. */
const LATE_MS_MAX = 2 * 3_600_000

/** Accepted events a second in the time of sums. */
export function rateOf(stats: EventStats): number {
  const seconds = (Date.parse(stats.before) - Date.parse(stats.after)) / 1_000
  return seconds > 0 ? stats.totals.accepted / seconds : 0
}

/** Warnings about the last hour and the exports of a project. */
export function warningsOf(
  hour: EventStats | undefined,
  exports: readonly BatchExport[],
  projectId: number,
  now: Date,
): Warning[] {
  const warnings: Warning[] = []
  if (hour) warnings.push(...lag(hour, projectId, now), ...refused(hour, projectId))
  for (const one of exports) warnings.push(...failing(one, projectId, now))
  return warnings
}

function lag(hour: EventStats, projectId: number, now: Date): Warning[] {
  const ms = now.getTime() - Date.parse(hour.accepted_until)
  if (ms < LAG_MS_MAX) return []
  const text =
    `Events of the last ${duration(ms)} are not counted yet. They are safe on disk, and wait ` +
    'for ClickHouse. If this lasts, tell the operator.'
  const href = projectPath(projectId, 'live')
  return [{ tone: 'warn', title: 'ClickHouse is behind', text, action: 'Watch live', href }]
}

function refused(hour: EventStats, projectId: number): Warning[] {
  const { accepted, rejected } = hour.totals
  if (rejected === 0 || rejected < (accepted + rejected) * REJECTED_SHARE_MAX) return []
  const text = `${counted(rejected, 'event')} of the last hour, ${percent(rejected, accepted + rejected)}.`
  const href = projectPath(projectId, 'rejected')
  return [{ tone: 'warn', title: 'Events are rejected', text, action: 'See why', href }]
}

function failing(one: BatchExport, projectId: number, now: Date): Warning[] {
  const newest = one.latest_runs[0]
  const href = projectPath(projectId, 'exports', one.id)
  if (newest?.status === 'Failed') {
    const text = newest.latest_error ?? 'Its last run failed.'
    return [
      { tone: 'bad', title: `Export “${one.name}” fails`, text, action: 'See its runs', href },
    ]
  }
  const done = one.latest_runs.find((run) => run.status === 'Completed')
  const lateMs = done ? now.getTime() - Date.parse(done.data_interval_end) : 0
  if (one.paused || one.interval !== 'hour' || lateMs < 3_600_000 + LATE_MS_MAX) return []
  const text = `Its last window ended ${duration(lateMs)} ago.`
  return [
    { tone: 'warn', title: `Export “${one.name}” is behind`, text, action: 'See its runs', href },
  ]
}
