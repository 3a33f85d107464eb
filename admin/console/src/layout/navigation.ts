// Screens in the order of the navigation, with their words and keys.

import type { IconName } from '../ui/Icon.svelte'
import type { ProjectScreen } from '../state/routes'

export interface NavigationItem {
  screen: ProjectScreen
  label: string
  icon: IconName
  /** Key after `g` that goes there. */
  key: string
}

export const ITEMS: readonly NavigationItem[] = [
  { screen: 'home', label: 'Home', icon: 'home', key: 'h' },
  { screen: 'start', label: 'Start', icon: 'start', key: 's' },
  { screen: 'live', label: 'Live', icon: 'live', key: 'l' },
  { screen: 'rejected', label: 'Rejected', icon: 'rejected', key: 'r' },
  { screen: 'events', label: 'Events', icon: 'events', key: 'e' },
  { screen: 'persons', label: 'Persons', icon: 'persons', key: 'p' },
  { screen: 'sql', label: 'SQL', icon: 'sql', key: 'q' },
  { screen: 'imports', label: 'Imports', icon: 'imports', key: 'i' },
  { screen: 'exports', label: 'Exports', icon: 'exports', key: 'x' },
]
