// Periods that screens show, as parts of their addresses.

import type { StatsStep } from '../api/types'

export interface Period {
  id: string
  label: string
  ms: number
  step: StatsStep
}

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
const DAY_MS = 24 * HOUR_MS

export const PERIODS: readonly [Period, ...Period[]] = [
  { id: '1h', label: 'Last hour', ms: HOUR_MS, step: 'minute' },
  { id: '24h', label: 'Last 24 hours', ms: DAY_MS, step: 'hour' },
  { id: '7d', label: 'Last 7 days', ms: 7 * DAY_MS, step: 'hour' },
  { id: '30d', label: 'Last 30 days', ms: 30 * DAY_MS, step: 'day' },
  { id: '1y', label: 'Last year', ms: 365 * DAY_MS, step: 'day' },
]

export const STEP_SECONDS: Record<StatsStep, number> = { minute: 60, hour: 3_600, day: 86_400 }

/** Period of an address; the one of `fallback` for others. */
export function periodOf(id: string, fallback = '24h'): Period {
  const found = PERIODS.find((one) => one.id === id) ?? PERIODS.find((one) => one.id === fallback)
  return found ?? PERIODS[0]
}

/** Beginning of a period that ends now, as a time of the API. */
export function beginningOf(period: Period, now = new Date()): string {
  return new Date(now.getTime() - period.ms).toISOString()
}
