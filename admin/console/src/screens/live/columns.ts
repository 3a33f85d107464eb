// Columns of the live stream.

import type { TableColumn } from '../../ui/Table.svelte'

export const COLUMNS: (TableColumn & { key: LiveColumn })[] = [
  { key: 'time', label: 'Received' },
  { key: 'fate', label: 'Fate' },
  { key: 'event', label: 'Event', isMain: true },
  { key: 'distinct_id', label: 'Distinct id', isWide: true },
  { key: 'sdk', label: 'SDK', isWide: true },
  { key: 'bytes', label: 'Size', isNumber: true, isWide: true },
  { key: 'key', label: 'Key', isWide: true },
  { key: 'client_ip', label: 'Address', isWide: true },
]

export type LiveColumn =
  'time' | 'fate' | 'event' | 'distinct_id' | 'sdk' | 'bytes' | 'key' | 'client_ip'

export const DEFAULT_COLUMNS: LiveColumn[] = [
  'time',
  'fate',
  'event',
  'distinct_id',
  'sdk',
  'bytes',
]
