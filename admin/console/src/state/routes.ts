// Addresses of the pages. Each is a deep link; the server answers all of them with the same page.

export const PROJECT_SCREENS = [
  'home',
  'start',
  'live',
  'rejected',
  'events',
  'persons',
  'sql',
  'imports',
  'exports',
] as const

export const ORGANIZATION_SCREENS = [
  'members',
  'invites',
  'projects',
  'keys',
  'domains',
  'activity',
] as const

export type ProjectScreen = (typeof PROJECT_SCREENS)[number]
export type OrganizationScreen = (typeof ORGANIZATION_SCREENS)[number]

/** Page that an address names. */
export type Route =
  | { name: 'front' }
  | { name: 'key' }
  | { name: 'project'; projectId: number; screen: ProjectScreen; item: string | null }
  | { name: 'organization'; organizationId: string; screen: OrganizationScreen }
  | { name: 'operator' }
  | { name: 'unknown' }

/** Page of a path. */
export function routeOf(path: string): Route {
  const [area, id, screen, item, ...rest] = path.split('/').filter(Boolean).map(decoded)
  if (area === undefined) return { name: 'front' }
  if (area === 'key' && id === undefined) return { name: 'key' }
  if (area === 'operator' && id === undefined) return { name: 'operator' }
  if (rest.length > 0 || id === undefined) return { name: 'unknown' }
  if (area === 'projects' && /^\d+$/.test(id)) {
    const found = PROJECT_SCREENS.find((name) => name === (screen ?? 'home'))
    const mayHaveItem = found === 'exports' || found === 'rejected'
    if (!found || (item !== undefined && !mayHaveItem)) return { name: 'unknown' }
    return { name: 'project', projectId: Number(id), screen: found, item: item ?? null }
  }
  if (area === 'organizations' && item === undefined) {
    const found = ORGANIZATION_SCREENS.find((name) => name === (screen ?? 'members'))
    if (found) return { name: 'organization', organizationId: id, screen: found }
  }
  return { name: 'unknown' }
}

export function projectPath(projectId: number, screen: ProjectScreen, item?: string): string {
  const path = `/projects/${projectId}/${screen}`
  return item === undefined ? path : `${path}/${encodeURIComponent(item)}`
}

export function organizationPath(organizationId: string, screen: OrganizationScreen): string {
  return `/organizations/${organizationId}/${screen}`
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
