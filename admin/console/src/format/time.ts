// Times in the viewer's zone.

/** Zone of the viewer, such as `Europe/Berlin`. */
export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'

const day = new Intl.DateTimeFormat('en-CA', { year: 'numeric', month: '2-digit', day: '2-digit' })
const second = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})
const minute = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const offset = new Intl.DateTimeFormat('en', { timeZoneName: 'shortOffset' })
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })

const SPANS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
]

/** Day: `2026-11-29`. */
export function onDay(at: Date): string {
  return day.format(at)
}

/** Time of day: `14:38:05`. */
export function timeOfDay(at: Date): string {
  return second.format(at)
}

/** Time of day with milliseconds: `14:38:05.123`. */
export function exactTimeOfDay(at: Date): string {
  return `${second.format(at)}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

/** Day and minute: `2026-11-29 14:38`. */
export function dayAndMinute(at: Date): string {
  return `${day.format(at)} ${minute.format(at)}`
}

/** Day, second and zone: `2026-11-29 14:38:05 GMT+1`. */
export function exact(at: Date): string {
  const zone = offset.formatToParts(at).find((part) => part.type === 'timeZoneName')?.value
  return `${day.format(at)} ${second.format(at)} ${zone ?? ''}`.trim()
}

/** Distance from now: `5 minutes ago`. */
export function ago(at: Date, now: Date): string {
  const seconds = Math.round((at.getTime() - now.getTime()) / 1_000)
  const [unit, size] = SPANS.find(([, size]) => Math.abs(seconds) >= size) ?? ['second', 1]
  return relative.format(Math.trunc(seconds / size), unit)
}

/** Length of a time: `850 ms`, `12 s`, `3 min`, `2 h`, `5 days`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  const seconds = ms / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`
  if (seconds < 172_800) return `${Math.round(seconds / 3_600)} h`
  return `${Math.round(seconds / 86_400)} days`
}

/** Value of a `datetime-local` input as a time of the API; `undefined` if it is empty. */
export function ofInput(value: string): string | undefined {
  const at = new Date(value)
  return Number.isNaN(at.getTime()) ? undefined : at.toISOString()
}

/** Time of ClickHouse, which has no zone and is in UTC. */
export function ofClickHouse(text: string): Date {
  return new Date(`${text.replace(' ', 'T')}Z`)
}
