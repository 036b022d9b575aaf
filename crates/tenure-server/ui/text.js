// Other people's text. Names and labels may hold anything: Preact shows them as text, and what
// would be invisible, or would change the direction of what follows, is spelled out here.
import { html } from "./html.js";

// Controls, soft hyphen, zero-width and bidirectional marks, line separators, byte-order mark, tags.
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\u{e0000}-\u{e0fff}]|[\ud800-\udfff]/gu;

const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0" };

// A variation selector or joiner inside an emoji belongs to it.
const EMOJI = /\p{Extended_Pictographic}[\ufe0f\u200d]*$/u;

const escape = (char) => SHORT[char] ?? `\\u{${char.codePointAt(0).toString(16)}}`;

// The text in pieces: [plain, escape, plain, escape, ...].
function pieces(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(HIDDEN)) {
    const joins = match[0] === "\ufe0f" || match[0] === "\u200d";
    if (joins && EMOJI.test(text.slice(Math.max(0, match.index - 12), match.index))) continue;
    found.push(text.slice(from, match.index), escape(match[0]));
    from = match.index + match[0].length;
  }
  found.push(text.slice(from));
  return found;
}

// The same as one string, for titles, messages and the clipboard's preview.
export const visible = (text) => pieces(String(text)).join("");

// Somebody's text in a box of its own: its direction ends with it.
export function Foreign({ text, class: extra = "" }) {
  const parts = pieces(String(text));
  return html`<bdi class=${`foreign ${extra}`} title=${parts.join("")}>${
    parts.length === 1 && parts[0] === "" ? html`<span class="escape">empty</span>` : parts.map((part, place) =>
      place % 2 ? html`<span class="escape">${part}</span>` : part)
  }</bdi>`;
}

// A text as one word of a shell: in quotes unless it needs none.
export function shellWord(text) {
  if (/^[A-Za-z0-9_@%+=:,./-]+$/.test(text)) return text;
  if (/[\u0000-\u001f\u007f-\u009f]/.test(text)) {
    const bytes = (char) => [...new TextEncoder().encode(char)].map((b) => `\\x${b.toString(16).padStart(2, "0")}`).join("");
    return `$'${text.replace(/[\\']/g, "\\$&").replace(/[\u0000-\u001f\u007f-\u009f]/g, bytes)}'`;
  }
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
