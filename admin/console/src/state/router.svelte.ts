// Address of the window as state: pages read it, links and filters write it.

import { routeOf, type Route } from './routes'

let path = $state(location.pathname)
let search = $state(location.search)
const route = $derived(routeOf(path))
const query = $derived(new URLSearchParams(search))

addEventListener('popstate', read)

function read(): void {
  path = location.pathname
  search = location.search
}

export const router = {
  get route(): Route {
    return route
  },
  get path(): string {
    return path
  },
  /** Parameter of the address; empty if it has none. */
  parameter(name: string): string {
    return query.get(name) ?? ''
  },
}

/** Goes to an address of ours. */
export function go(address: string, options: { replace?: boolean } = {}): void {
  if (address === location.pathname + location.search) return
  if (options.replace) history.replaceState(null, '', address)
  else history.pushState(null, '', address)
  const hadPath = path
  read()
  if (path !== hadPath) scrollTo(0, 0)
}

/** Sets parameters of the address, without a step back to the old ones; empty ones are left out. */
export function setParameters(changes: Record<string, string>): void {
  const changed = new URLSearchParams(location.search)
  for (const [name, value] of Object.entries(changes)) {
    if (value) changed.set(name, value)
    else changed.delete(name)
  }
  const text = changed.toString()
  go(location.pathname + (text && `?${text}`), { replace: true })
}

/** Follows a click on a link of ours without loading the page anew. */
export function follow(event: MouseEvent): void {
  const isPlain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey
  const target = event.target instanceof Element ? event.target.closest('a') : null
  if (!target || !isPlain || event.defaultPrevented || event.altKey) return
  const isOurs = target.origin === location.origin && !target.pathname.startsWith('/api')
  if (!isOurs || target.target || target.hasAttribute('download')) return
  event.preventDefault()
  go(target.pathname + target.search)
}
