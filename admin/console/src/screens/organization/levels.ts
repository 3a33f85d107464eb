// Levels of members.

export const LEVELS = [
  { level: 1, label: 'Member' },
  { level: 8, label: 'Administrator' },
  { level: 15, label: 'Owner' },
] as const

export type Level = (typeof LEVELS)[number]['level']

export function levelLabel(level: number): string {
  return LEVELS.find((one) => one.level === level)?.label ?? String(level)
}

/** Returns true if a member of a level may change what administrators may. */
export function isAdministrator(level: number): boolean {
  return level >= 8
}
