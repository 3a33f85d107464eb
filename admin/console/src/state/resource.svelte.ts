// Data of a screen that a call answers with: loading, failed, or there.

import { CallFailure } from '../api/client'
import { isAbort } from '../api/failure'

/** Answer of a call with its state. While it loads again, the last data stays. */
export interface Resource<T> {
  readonly data: T | undefined
  readonly failure: CallFailure | undefined
  readonly isLoading: boolean
  reload(): void
}

/** Calls `read` whenever state that it reads changes, and each `everyMs` while the page is seen. */
export function resource<T>(
  read: (signal: AbortSignal) => Promise<T>,
  everyMs: number | null = null,
): Resource<T> {
  let data = $state.raw<T>()
  let failure = $state.raw<CallFailure>()
  let isLoading = $state(true)
  let asked = $state(0)

  $effect(() => {
    void asked
    const controller = new AbortController()
    isLoading = true
    read(controller.signal).then(
      (answered) => {
        if (controller.signal.aborted) return
        ;[data, failure, isLoading] = [answered, undefined, false]
      },
      (cause: unknown) => {
        if (controller.signal.aborted || isAbort(cause)) return
        ;[failure, isLoading] = [failureFor(cause), false]
      },
    )
    return () => controller.abort()
  })

  $effect(() => {
    if (everyMs === null) return
    const timer = setInterval(() => document.hidden || asked++, everyMs)
    return () => clearInterval(timer)
  })

  return {
    get data() {
      return data
    },
    get failure() {
      return failure
    },
    get isLoading() {
      return isLoading
    },
    reload: () => void asked++,
  }
}

/** Failure that a screen shows for an exception. */
export function failureFor(cause: unknown): CallFailure {
  if (cause instanceof CallFailure) return cause
  return new CallFailure(0, 'console_fault', `The console failed: ${String(cause)}`)
}
