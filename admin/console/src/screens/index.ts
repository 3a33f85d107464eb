// Screens, each loaded when it is first shown.

import type { Component } from 'svelte'

export type ScreenName =
  | 'home'
  | 'start'
  | 'live'
  | 'rejected'
  | 'events'
  | 'persons'
  | 'sql'
  | 'imports'
  | 'exports'
  | 'organization'
  | 'operator'

type Loader = () => Promise<{ default: Component }>

export const SCREENS: Record<ScreenName, Loader> = {
  home: () => import('./home/Home.svelte'),
  start: () => import('./start/Start.svelte'),
  live: () => import('./live/Live.svelte'),
  rejected: () => import('./rejected/Rejected.svelte'),
  events: () => import('./events/Events.svelte'),
  persons: () => import('./persons/Persons.svelte'),
  sql: () => import('./sql/Sql.svelte'),
  imports: () => import('./imports/Imports.svelte'),
  exports: () => import('./exports/Exports.svelte'),
  organization: () => import('./organization/Organization.svelte'),
  operator: () => import('./operator/Operator.svelte'),
}
