// Colours of tokens, for what draws on a canvas.

const probes = new WeakMap<HTMLElement, HTMLElement>()

/** Colour that a token has at an element, as `rgb(…)`. */
export function colourOf(element: HTMLElement, token: string): string {
  let probe = probes.get(element)
  if (!probe?.isConnected) {
    probe = document.createElement('span')
    probe.hidden = true
    element.append(probe)
    probes.set(element, probe)
  }
  // `light-dark()` is resolved in a colour, and not in the token itself.
  probe.style.color = `var(${token})`
  return getComputedStyle(probe).color
}
