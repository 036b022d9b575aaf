// Small pieces that several pages are made of.
import { useEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";
import { Foreign } from "./text.js";
import { atTime, left, seconds, span, tick, utc } from "./time.js";
import { lockHref } from "./route.js";

// What a state is called, and its mark: no state is told by colour alone.
const STATES = {
  held: ["●", "held"], free: ["○", "free"], kept: ["◐", "kept"], reserved: ["◔", "reserved"],
  disputed: ["▲", "disputed"], unknown: ["?", "unknown"],
  two: ["✕", "two holders"], votes: ["✓", "votes"], quarantine: ["◷", "quarantined"], unreachable: ["✕", "unreachable"], refused: ["✕", "does not vote"],
};

export function State({ state, words }) {
  const [mark, word] = STATES[state] ?? STATES.unknown;
  return html`<span class=${`state ${state}`}><span aria-hidden="true">${mark}</span> ${words ?? word}</span>`;
}

export const LockName = ({ name }) => html`<a class="lock-name" href=${lockHref(name)}><${Foreign} text=${name} />
  </a>`;

// The bar is a picture of the number beside it.
export function Left({ ms, at, term }) {
  if (ms === null || ms === undefined) return html`<span class="muted">–</span>`;
  const rest = left(ms, at);
  const share = term ? Math.min(1, rest / term) : 0;
  const level = share < 0.2 ? "low" : share < 0.5 ? "half" : "full";
  return html`<span class="left"><span class="number">${seconds(rest)}</span>
    <span class=${`bar ${level}`} aria-hidden="true"><span style=${{ transform: `scaleX(${share.toFixed(3)})` }}>
    </span></span></span>`;
}

export function Age({ ms, at, exact = true }) {
  if (ms === null || ms === undefined) return html`<span class="muted">–</span>`;
  const text = span(ms + Math.max(0, tick.value - at));
  return exact ? html`<span class="number">${text}</span>` : html`<span class="number" title="Seen on the nodes: it may be older">≥ ${text}</span>`;
}

export const Moment = ({ ms }) => html`<time class="number" dateTime=${new Date(ms).toISOString()} title=${utc(ms)}>${atTime(ms)}</time>`;

export function Copy({ text, what }) {
  const [said, say] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      say("Copied");
    } catch {
      say("Select the text to copy it");
    }
    setTimeout(() => say(""), 2000);
  };
  return html`<button type="button" class="quiet" onClick=${copy} aria-label=${`Copy ${what}`}>Copy</button>
    <span class="said" role="status">${said}</span>`;
}

// A modal dialog: the browser keeps the focus in it and gives it back.
export function Dialog({ title, onClose, children, class: extra = "" }) {
  const ref = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    ref.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${extra} aria-labelledby="dialog-title" onClose=${onClose} onCancel=${onClose}>
    <h2 id="dialog-title">${title}</h2>${children}</dialog>`;
}

// Nothing to show, and what to do about it.
export const Empty = ({ title, children }) => html`<section class="empty"><h2>${title}</h2>${children}</section>`;

export const Title = ({ children }) => html`<h1 tabIndex="-1">${children}</h1>`;

// A short id, whole in the title: holders are sixteen digits.
export const Id = ({ text }) => (text ? html`<code class="id" title=${text}>${text.slice(0, 8)}</code>` : html`<span class="muted">–</span>`);
