// The time, for distances from now: it goes on every few seconds.

const STEP_MS = 5_000
let now = $state.raw(new Date())
setInterval(() => (now = new Date()), STEP_MS)

export const clock = {
  get now(): Date {
    return now
  },
}
