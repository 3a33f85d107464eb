// Numbers for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']

/** Number with separators: `12,345`. */
export function count(value: number): string {
  return whole.format(value)
}

/** Number of a few characters: `12.3K`. */
export function compact(value: number): string {
  return Math.abs(value) < 10_000 ? whole.format(value) : short.format(value)
}

/** Count with its noun: `1 event`, `2 events`. */
export function counted(value: number, noun: string, plural = `${noun}s`): string {
  return `${count(value)} ${value === 1 ? noun : plural}`
}

/** Size with its unit: `1.5 MiB`. */
export function bytes(value: number): string {
  let unit = 0
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024
    unit += 1
  }
  const digits = unit === 0 || value >= 100 ? 0 : 1
  return `${value.toFixed(digits)} ${UNITS[unit]}`
}

/** Share of a whole: `0.4 %`; small ones are not shown as none. */
export function percent(part: number, all: number): string {
  if (all === 0) return '0 %'
  const value = (part / all) * 100
  if (value > 0 && value < 0.01) return '< 0.01 %'
  return `${Number(value.toFixed(value < 1 ? 2 : 1))} %`
}

/** Rate with its unit: `0.5/s`. */
export function rate(perSecond: number): string {
  const text = perSecond >= 100 ? compact(perSecond) : String(Number(perSecond.toPrecision(2)))
  return `${text}/s`
}
