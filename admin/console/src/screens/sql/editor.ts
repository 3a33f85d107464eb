// Editor of SQL. It lives in a shadow root: there its styles are adopted style sheets, which the
// content security policy allows, and not elements.

import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from '@codemirror/autocomplete'
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { sql, type SQLNamespace } from '@codemirror/lang-sql'
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { Compartment, EditorSelection, EditorState } from '@codemirror/state'
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
  placeholder,
} from '@codemirror/view'
import { tags } from '@lezer/highlight'
import { CLICKHOUSE } from './dialect'

export interface Editor {
  setText(text: string): void
  setSchema(schema: SQLNamespace): void
  /** Puts the cursor at an offset in the text, such as that of an error. */
  goTo(offset: number): void
  destroy(): void
}

export interface EditorOptions {
  text: string
  onchange(text: string): void
  onrun(): void
}

const theme = EditorView.theme({
  '&': { fontSize: '13px', color: 'var(--ink)', backgroundColor: 'var(--surface)' },
  '&.cm-focused': { outline: '2px solid var(--accent)', outlineOffset: '-2px' },
  '.cm-scroller': {
    fontFamily: 'var(--mono)',
    lineHeight: '1.55',
    minHeight: '10rem',
    maxHeight: '24rem',
  },
  '.cm-content': { padding: '10px 0', caretColor: 'var(--ink)' },
  '.cm-cursor': { borderLeftColor: 'var(--ink)' },
  '.cm-gutters': { backgroundColor: 'var(--surface)', color: 'var(--ink-faint)', border: 'none' },
  '.cm-activeLine': { backgroundColor: 'color-mix(in srgb, var(--accent) 6%, transparent)' },
  '.cm-activeLineGutter': { backgroundColor: 'transparent' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    {
      backgroundColor: 'var(--accent-wash)',
    },
  '.cm-tooltip': {
    backgroundColor: 'var(--raised)',
    color: 'var(--ink)',
    border: '1px solid var(--line)',
    borderRadius: '5px',
  },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--accent)',
    color: 'var(--accent-ink)',
  },
  '.cm-placeholder': { color: 'var(--ink-faint)' },
})

const colours = HighlightStyle.define([
  { tag: tags.keyword, color: 'var(--series-4)', fontWeight: '600' },
  { tag: [tags.string, tags.special(tags.string)], color: 'var(--series-5)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--series-2)' },
  { tag: tags.typeName, color: 'var(--series-3)' },
  { tag: tags.standard(tags.name), color: 'var(--series-1)' },
  { tag: [tags.lineComment, tags.blockComment], color: 'var(--ink-faint)', fontStyle: 'italic' },
])

/**
 * Replaces a selection by what is typed, before the browser does: it would keep the selection's colours
 * by an inline style, which the policy forbids. Texts of input methods cannot be taken over.
 */
const replaceSelection = EditorView.domEventHandlers({
  beforeinput(event, view) {
    const { state } = view
    const { main } = state.selection
    const text = event.inputType === 'insertText' ? event.data : null
    if (text === null || main.empty || view.composing) return false
    const insert = () =>
      state.update(state.replaceSelection(text), { userEvent: 'input.type', scrollIntoView: true })
    const handlers = state.facet(EditorView.inputHandler)
    const isHandled = handlers.some((handle) => handle(view, main.from, main.to, text, insert))
    if (!isHandled) view.dispatch(insert())
    return true
  },
})

/** Makes an editor in an element. */
export function makeEditor(element: HTMLElement, options: EditorOptions): Editor {
  const root = element.shadowRoot ?? element.attachShadow({ mode: 'open' })
  const language = new Compartment()
  const speaks = (schema: SQLNamespace) => {
    return sql({ dialect: CLICKHOUSE, schema, upperCaseKeywords: true })
  }
  const run = { key: 'Mod-Enter', run: () => (options.onrun(), true) }
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        keymap.of([run, { key: 'Tab', run: acceptCompletion }]),
        keymap.of([
          ...closeBracketsKeymap,
          ...completionKeymap,
          ...historyKeymap,
          ...defaultKeymap,
        ]),
        lineNumbers(),
        history(),
        drawSelection(),
        bracketMatching(),
        closeBrackets(),
        autocompletion(),
        highlightActiveLine(),
        EditorView.lineWrapping,
        replaceSelection,
        EditorView.contentAttributes.of({ 'aria-label': 'Query' }),
        placeholder('SELECT event, count() FROM events GROUP BY event'),
        language.of(speaks({})),
        syntaxHighlighting(colours),
        theme,
        EditorView.updateListener.of((update) => {
          if (update.docChanged) options.onchange(update.state.doc.toString())
        }),
      ],
    }),
  })
  return {
    setText(text) {
      if (text === view.state.doc.toString()) return
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } })
    },
    setSchema: (schema) => view.dispatch({ effects: language.reconfigure(speaks(schema)) }),
    goTo(offset) {
      const at = Math.min(offset, view.state.doc.length)
      view.dispatch({ selection: EditorSelection.cursor(at), scrollIntoView: true })
      view.focus()
    },
    destroy: () => view.destroy(),
  }
}
