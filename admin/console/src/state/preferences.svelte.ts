// What a person prefers in this browser. Without storage it lasts as long as the page.

export type Theme = 'system' | 'light' | 'dark'

const PREFIX = 'millrace.'

function stored(name: string): string | null {
  try {
    return localStorage.getItem(PREFIX + name)
  } catch {
    return null
  }
}

function store(name: string, value: string): void {
  try {
    localStorage.setItem(PREFIX + name, value)
  } catch {
    // A full or forbidden storage only forgets the preference.
  }
}

const found = stored('theme')
const first: Theme = found === 'light' || found === 'dark' ? found : 'system'
let theme = $state<Theme>(first)
apply(first)

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = theme
}

export const preferences = {
  get theme(): Theme {
    return theme
  },
  set theme(chosen: Theme) {
    theme = chosen
    store('theme', chosen)
    apply(chosen)
  },
}

/** Value of a screen that is kept in this browser. */
export function remembered<T>(name: string, fallback: T): T {
  const text = stored(name)
  if (text === null) return fallback
  try {
    return JSON.parse(text) as T
  } catch {
    return fallback
  }
}

export function remember(name: string, value: unknown): void {
  store(name, JSON.stringify(value))
}
