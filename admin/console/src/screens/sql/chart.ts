// Chart of an answer: which columns it has on its axes.

import type { Column } from '../../api/query'
import { ofClickHouse } from '../../format/time'
import type { Series } from '../../ui/Chart.svelte'

/** Data of a chart. */
export interface AnswerChart {
  at: number[]
  series: Series[]
  isTime: boolean
  isBars: boolean
  /** Texts in the places of the lower axis; empty if it has numbers or times. */
  labels: string[]
}

const LINES_MAX = 8
const POINTS_MAX = 5_000
const LABELS_MAX = 40

type Kind = 'time' | 'number' | 'text'

function kindOf({ type }: Column): Kind {
  const inner = type.replace(/^(?:Nullable|LowCardinality)\((.*)\)$/, '$1')
  if (/^Date/.test(inner)) return 'time'
  return /^(?:U?Int|Float|Decimal)/.test(inner) ? 'number' : 'text'
}

/**
 * Chart of an answer; `null` if it has none: the first column is the lower axis, columns of numbers are
 * lines. Between them one column of texts may say which line a row belongs to.
 */
export function chartOf(columns: Column[], rows: unknown[][]): AnswerChart | null {
  const kinds = columns.map(kindOf)
  const numbers = kinds.flatMap((kind, at) => (at > 0 && kind === 'number' ? [at] : []))
  if (rows.length < 2 || rows.length > POINTS_MAX || numbers.length === 0) return null
  const [first] = kinds
  if (first === 'text') return barsOf(columns, rows, numbers)
  const split = kinds.indexOf('text', 1)
  const value = numbers[0]
  if (split > 0 && value !== undefined && numbers.length === 1) {
    return splitLines(rows, first === 'time', split, value)
  }
  const sorted = [...rows].sort((one, other) => placeOf(one[0]) - placeOf(other[0]))
  return {
    at: sorted.map((row) => placeOf(row[0])),
    series: numbers.slice(0, LINES_MAX).map((at) => ({
      label: columns[at]?.name ?? '',
      values: sorted.map((row) => numberOf(row[at])),
    })),
    isTime: first === 'time',
    isBars: false,
    labels: [],
  }
}

function barsOf(columns: Column[], rows: unknown[][], numbers: number[]): AnswerChart | null {
  if (rows.length > LABELS_MAX) return null
  return {
    at: rows.map((_, index) => index),
    series: numbers.slice(0, 1).map((at) => ({
      label: columns[at]?.name ?? '',
      values: rows.map((row) => numberOf(row[at])),
    })),
    isTime: false,
    isBars: true,
    labels: rows.map((row) => String(row[0])),
  }
}

/** Lines by the texts of a column; a place without a row has no value. */
function splitLines(rows: unknown[][], isTime: boolean, split: number, value: number): AnswerChart {
  const at = [...new Set(rows.map((row) => placeOf(row[0])))].sort((one, other) => one - other)
  const places = new Map(at.map((place, index) => [place, index]))
  const lines = new Map<string, (number | null)[]>()
  for (const row of rows) {
    const name = String(row[split])
    const line = lines.get(name) ?? at.map(() => null)
    line[places.get(placeOf(row[0])) ?? 0] = numberOf(row[value])
    lines.set(name, line)
  }
  const series = [...lines].slice(0, LINES_MAX).map(([label, values]) => ({ label, values }))
  return { at, series, isTime, isBars: false, labels: [] }
}

function placeOf(value: unknown): number {
  if (typeof value !== 'string') return Number(value)
  const number = Number(value)
  return Number.isNaN(number) ? ofClickHouse(withTime(value)).getTime() / 1_000 : number
}

function withTime(text: string): string {
  return text.length === 10 ? `${text} 00:00:00` : text
}

function numberOf(value: unknown): number | null {
  if (value === null || value === undefined || value === '') return null
  const number = Number(value)
  return Number.isFinite(number) ? number : null
}
