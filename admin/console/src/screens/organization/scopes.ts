// Scopes of personal keys.

/** Families of scopes, with what they are for. */
export const FAMILIES: readonly [string, string][] = [
  ['event', 'Live stream, numbers, rejected events'],
  ['query', 'SQL'],
  ['organization', 'The organization'],
  ['organization_member', 'Members and invites'],
  ['project', 'Projects'],
  ['batch_export', 'Exports'],
  ['historical_migration', 'Imports'],
  ['activity_log', 'Activity'],
  ['plugin', 'Plugins'],
  ['role', 'Roles'],
  ['proxy_record', 'Reverse proxies'],
]

export type Access = 'none' | 'read' | 'write'

/** Scopes of a choice by family; queries are read only. */
export function scopesOf(chosen: Record<string, Access>): string[] {
  const given = FAMILIES.flatMap(([family]) => {
    const access = chosen[family] ?? 'none'
    return access === 'none' ? [] : [`${family}:${access}`]
  })
  return given
}

/** Words for the scopes of a key. */
export function scopeWords(scopes: readonly string[]): string {
  return scopes.includes('*') ? 'everything' : scopes.join(', ')
}
