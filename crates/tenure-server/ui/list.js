// A table of many rows of one height, of which only those in sight exist.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { html } from "./html.js";

// Rows beyond both edges, so that scrolling shows no gaps.
const SPARE = 8;

export function VirtualList({ rows, row, head, label, onOpen }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600, size: 40 });
  const focus = useRef(null);
  const look = () => {
    const element = box.current;
    if (!element) return;
    const size = parseFloat(getComputedStyle(element).getPropertyValue("--row")) || 40;
    const next = { top: element.scrollTop, height: element.clientHeight, size };
    setView((before) => (before.top === next.top && before.height === next.height && before.size === next.size ? before : next));
  };
  useLayoutEffect(look, []);
  useEffect(() => {
    const watcher = new ResizeObserver(look);
    watcher.observe(box.current);
    return () => watcher.disconnect();
  }, []);
  // A row that the keys went to gets the focus once it is there.
  useLayoutEffect(() => {
    if (focus.current === null) return;
    const link = box.current.querySelector(`[aria-rowindex="${focus.current + 2}"] a`);
    if (link) {
      link.focus({ preventScroll: true });
      focus.current = null;
    }
  });
  const first = Math.max(0, Math.floor(view.top / view.size) - SPARE);
  const last = Math.min(rows.length, Math.ceil((view.top + view.height) / view.size) + SPARE);
  const step = { ArrowDown: 1, ArrowUp: -1, j: 1, k: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };
  const onKeyDown = (event) => {
    if (!(event.key in step) || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = Number(event.target.closest?.("[aria-rowindex]")?.getAttribute("aria-rowindex") ?? 1) - 2;
    const to = Math.min(rows.length - 1, Math.max(0, at + step[event.key]));
    event.preventDefault();
    focus.current = to;
    const element = box.current;
    const headHeight = element.querySelector(".thead").offsetHeight;
    const [above, below] = [to * view.size, (to + 1) * view.size + headHeight];
    if (above < element.scrollTop) element.scrollTop = above;
    else if (below > element.scrollTop + element.clientHeight) element.scrollTop = below - element.clientHeight;
    setView((before) => ({ ...before, top: element.scrollTop }));
  };
  const open = (event, item) => !event.target.closest("a, button") && getSelection().isCollapsed && onOpen?.(item);
  return html`<div class="vlist" ref=${box} role="table" aria-label=${label} aria-rowcount=${rows.length + 1} tabIndex="0" onScroll=${look} onKeyDown=${onKeyDown}
      style=${{ "--rows": rows.length }}>
    <div class="thead" role="rowgroup"><div class="vrow" role="row" aria-rowindex="1">${head}</div></div>
    <div role="rowgroup" class="vbody" style=${{ height: `${rows.length * view.size}px` }}>
      ${rows.slice(first, last).map((item, place) => html`<div class="vrow" role="row" key=${item.name} aria-rowindex=${first + place + 2}
        style=${{ transform: `translateY(${(first + place) * view.size}px)` }} onClick=${(event) => open(event, item)}>${row(item)}</div>`)}</div>
          </div>`;
}
