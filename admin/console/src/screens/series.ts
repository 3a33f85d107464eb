// Sums of the API as lines of charts.

import type { EventCounts, EventStats } from '../api/types'
import type { Series } from '../ui/Chart.svelte'
import { STEP_SECONDS } from './period'

/** Steps of the time of sums, in seconds since 1970. */
export function stepsOf(stats: EventStats): number[] {
  const step = STEP_SECONDS[stats.step]
  const [from, to] = [secondsOf(stats.after), secondsOf(stats.before)]
  return Array.from(
    { length: Math.max(0, Math.ceil((to - from) / step)) },
    (_, n) => from + n * step,
  )
}

/** A line for each group, the largest first; steps that the API leaves out have no events. */
export function linesOf(
  stats: EventStats,
  which: keyof EventCounts,
  rest: string,
  linesMax = 8,
): Series[] {
  const steps = stepsOf(stats)
  const places = new Map(steps.map((at, index) => [at, index]))
  const lines = new Map<string, number[]>()
  for (const sum of stats.results) {
    const place = places.get(secondsOf(sum.at))
    if (place === undefined || sum[which] === 0) continue
    const name = sum.name ?? rest
    const line = lines.get(name) ?? steps.map(() => 0)
    line[place] = (line[place] ?? 0) + sum[which]
    lines.set(name, line)
  }
  const total = (values: number[]) => values.reduce((sum, value) => sum + value, 0)
  return [...lines]
    .map(([label, values]) => ({ label, values }))
    .sort((one, other) => total(other.values) - total(one.values))
    .slice(0, linesMax)
}

/** One line of all groups together. */
export function sumOf(stats: EventStats, which: keyof EventCounts): number[] {
  const steps = stepsOf(stats)
  const places = new Map(steps.map((at, index) => [at, index]))
  const line = steps.map(() => 0)
  for (const sum of stats.results) {
    const place = places.get(secondsOf(sum.at))
    if (place !== undefined) line[place] = (line[place] ?? 0) + sum[which]
  }
  return line
}

function secondsOf(at: string): number {
  return Math.floor(new Date(at).getTime() / 1_000)
}
