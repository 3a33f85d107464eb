import { describe, expect, it } from 'vitest'
import { organizationPath, projectPath, routeOf } from './routes'

describe('an address', () => {
  it.each([
    ['/', { name: 'front' }],
    ['/key', { name: 'key' }],
    ['/operator/', { name: 'operator' }],
    ['/projects/7', { name: 'project', projectId: 7, screen: 'home', item: null }],
    ['/projects/7/live/', { name: 'project', projectId: 7, screen: 'live', item: null }],
    ['/projects/7/exports/new', { name: 'project', projectId: 7, screen: 'exports', item: 'new' }],
    ['/projects/7/live/x', { name: 'unknown' }],
    ['/projects/7/exports/x/y', { name: 'unknown' }],
    ['/projects/seven/live', { name: 'unknown' }],
    ['/projects/7/nowhere', { name: 'unknown' }],
    ['/projects', { name: 'unknown' }],
    ['/organizations/a-1/keys', { name: 'organization', organizationId: 'a-1', screen: 'keys' }],
    ['/organizations/a-1', { name: 'organization', organizationId: 'a-1', screen: 'members' }],
    ['/%E0', { name: 'unknown' }],
  ])('%s names its page', (path, expected) => {
    expect(routeOf(path)).toEqual(expected)
  })

  it('leads back to the page that it was made for', () => {
    const route = routeOf(projectPath(3, 'rejected', 'a/b c'))
    expect(route).toMatchObject({ screen: 'rejected', item: 'a/b c' })
    expect(routeOf(organizationPath('o', 'domains'))).toMatchObject({ screen: 'domains' })
  })
})
