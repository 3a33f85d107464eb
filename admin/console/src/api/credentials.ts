// Credentials of calls. Sign-in by cookie replaces what this file does, and nothing else: calls then
// carry no header, and the server knows the session.

const STORED_AS = 'millrace.personal_key'
let key = sessionStorage.getItem(STORED_AS)
let onEnd: () => void = () => {}

/** Headers that authenticate a call. */
export function authorization(): Record<string, string> {
  return key ? { Authorization: `Bearer ${key}` } : {}
}

export function hasCredentials(): boolean {
  return key !== null
}

/** Keeps a key until the tab is closed. */
export function keep(personalKey: string): void {
  key = personalKey
  sessionStorage.setItem(STORED_AS, personalKey)
}

/** Forgets the key, and tells whoever shows pages. */
export function forget(): void {
  if (key === null) return
  key = null
  sessionStorage.removeItem(STORED_AS)
  onEnd()
}

/** Sets what is called when credentials end: signed out, or refused by the server. */
export function whenEnded(call: () => void): void {
  onEnd = call
}
