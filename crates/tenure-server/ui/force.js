// Force release: says what it does, wants the name typed, and means the holder that was shown.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "./api.js";
import { html } from "./html.js";
import { Dialog, Id } from "./parts.js";
import { Foreign, visible } from "./text.js";

const bytes = (text) => new TextEncoder().encode(text).length;

export function ForceRelease({ lock, current, onClose }) {
  const [typed, setTyped] = useState("");
  const [reason, setReason] = useState("");
  const [outcome, setOutcome] = useState(null);
  const [busy, setBusy] = useState(false);
  const told = useRef(null);
  // Not the button: the Enter that sent this would close it unread.
  useEffect(() => told.current?.focus(), [outcome]);
  // What cannot be typed is typed as it is shown.
  const matches = typed === lock.name || typed === visible(lock.name);
  const moved = current && current.holder !== lock.holder;
  const send = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      const { votes } = await api.forceRelease(lock.name, lock.holder, reason);
      const freed = votes.filter((vote) => vote.vote === "granted").length;
      setOutcome({ good: true, words: `Released on ${freed} of ${votes.length} nodes.` });
    } catch (problem) {
      const words = problem.type === "not-held"
        ? "Nothing happened: this holder no longer has the lock. It was released, it expired, or someone else holds it "
          + "now. Check the lock before you try again."
        : `The outcome is unknown: ${problem.message}`;
      setOutcome({ good: false, words: problem.type === "forbidden" ? `Nothing happened: ${problem.message}` : words });
    }
    setBusy(false);
  };
  if (outcome) {
    return html`<${Dialog} title="Force release" onClose=${onClose}>
      <p class=${outcome.good ? "" : "error"} role="alert" tabindex="-1" ref=${told}>${outcome.words}</p>
      <form method="dialog"><button class="primary">Close</button></form></>`;
  }
  return html`<${Dialog} title="Force release" onClose=${onClose} class="force">
    <p>This takes <${Foreign} text=${lock.name} />${" "}
      from ${lock.label ? html`<${Foreign} text=${lock.label} />` : "its holder"}${" "}
      (holder <${Id} text=${lock.holder} />${lock.readers > 1 ? `, all ${lock.readers} readers` : ""}).</p>
    <p class="warning"><strong>The holder is not stopped.</strong> It keeps running until its next extension fails,
      and the next holder may start before then: two processes may run at once. A resource that does not check
      fences can be corrupted. Stop the holder first if you can.</p>
    ${moved && html`<p class="error" role="alert">The lock has changed hands since you opened this:${" "}
      ${current.holder ? "someone else holds it now" : "it is no longer held"}. This will not affect the new holder.</p>`}
    <form onSubmit=${send}>
      <label for="force-name">Type the name of the lock</label>
      <input id="force-name" autocomplete="off" spellcheck=${false} value=${typed} onInput=${(event) => setTyped(event.target.value)} aria-describedby="force-shown" />
      <p id="force-shown" class="muted"><${Foreign} text=${lock.name} /></p>
      <label for="force-reason">Reason, for the audit log</label>
      <input id="force-reason" autocomplete="off" value=${reason} onInput=${(event) => setReason(event.target.value)} maxLength="256" />
      <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button>
        <button class="danger" disabled=${busy || !matches || !reason.trim() || bytes(reason) > 256}>Release the lock</button>
          </div>
    </form></>`;
}
