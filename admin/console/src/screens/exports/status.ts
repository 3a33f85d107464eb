// States of runs in words and tones.

import type { RunStatus } from '../../api/types'
import type { Tone } from '../../ui/Badge.svelte'

const STATES: Record<RunStatus, [string, Tone]> = {
  Starting: ['starting', 'idle'],
  Running: ['running', 'idle'],
  Completed: ['completed', 'good'],
  Failed: ['failed', 'bad'],
  FailedRetryable: ['failed, tried again', 'warn'],
  Cancelled: ['cancelled', 'plain'],
  Terminated: ['terminated', 'bad'],
  TimedOut: ['timed out', 'bad'],
}

export function statusWords(status: RunStatus): string {
  return STATES[status]?.[0] ?? status
}

export function statusTone(status: RunStatus): Tone {
  return STATES[status]?.[1] ?? 'plain'
}

/** Returns true while a run may still change. */
export function isOpen(status: RunStatus): boolean {
  return status === 'Starting' || status === 'Running' || status === 'FailedRetryable'
}
