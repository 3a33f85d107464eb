// Short messages about what was done; each goes away by itself.

export interface Toast {
  id: number
  text: string
}

const SHOWN_MS = 5_000
let next = 0
const toasts = $state<Toast[]>([])

export function shownToasts(): readonly Toast[] {
  return toasts
}

export function tell(text: string): void {
  const id = next++
  toasts.push({ id, text })
  setTimeout(() => {
    const index = toasts.findIndex((toast) => toast.id === id)
    if (index >= 0) toasts.splice(index, 1)
  }, SHOWN_MS)
}
