import { describe, expect, it } from 'vitest'
import type { BatchExport, EventStats } from '../../api/types'
import { rateOf, warningsOf } from './health'

const now = new Date('2026-11-29T12:00:00Z')
const hour = (
  totals: Partial<EventStats['totals']>,
  until = '2026-11-29T11:58:00Z',
): EventStats => ({
  step: 'minute',
  after: '2026-11-29T11:00:00Z',
  before: '2026-11-29T12:00:00Z',
  since: '2026-11-01T00:00:00Z',
  accepted_until: until,
  rejected_until: until,
  totals: { accepted: 0, rejected: 0, historical: 0, bytes: 0, ...totals },
  results: [],
})
const batchExport = (status: string, end: string, paused = false) =>
  ({
    id: 'e',
    name: 'Files',
    interval: 'hour',
    paused,
    latest_runs: [{ status, data_interval_end: end, latest_error: null }],
  }) as unknown as BatchExport

describe('a project', () => {
  it.each([
    ['nothing is wrong', hour({ accepted: 1000, rejected: 9 }), [], []],
    ['there are no numbers', undefined, [], []],
    ['ClickHouse lags', hour({}, '2026-11-29T11:50:00Z'), [], ['ClickHouse is behind']],
    ['many events are refused', hour({ accepted: 9, rejected: 1 }), [], ['Events are rejected']],
    [
      'a run failed',
      undefined,
      [batchExport('Failed', '2026-11-29T11:00:00Z')],
      ['Export “Files” fails'],
    ],
    [
      'a window was long ago',
      undefined,
      [batchExport('Completed', '2026-11-29T01:00:00Z')],
      ['Export “Files” is behind'],
    ],
    [
      'an old export is paused',
      undefined,
      [batchExport('Completed', '2026-11-29T01:00:00Z', true)],
      [],
    ],
  ])('has its warnings if %s', (_, stats, exports, expected) => {
    const warnings = warningsOf(stats, exports, 1, now)
    expect(warnings.map((warning) => warning.title)).toEqual(expected)
  })

  it('has a rate over the time of its sums', () => {
    expect(rateOf(hour({ accepted: 7_200 }))).toBe(2)
  })
})
