// Log-in: a token, once. The browser keeps a cookie that no script can read.
import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../api.js";
import { html } from "../html.js";
import { Title } from "../parts.js";
import { admit, gate } from "../store.js";

export function LogIn() {
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const submit = async (event) => {
    event.preventDefault();
    const token = field.current.value.trim();
    field.current.value = "";
    if (!token) return setError("Paste a token first.");
    setBusy(true);
    try {
      const who = await api.logIn(token);
      setError(null);
      admit(who);
    } catch (problem) {
      setError(problem.message);
      field.current?.focus();
    }
    setBusy(false);
  };
  const message = error ?? gate.value?.message;
  return html`<section class="login">
    <${Title}>Log in</>
    <p id="why" role="status" class=${error ? "error" : "muted"}>${message}</p>
    <form onSubmit=${submit}>
      <label for="token">Token of a caller with the right to read</label>
      <input id="token" ref=${field} type="password" autocomplete="off" spellcheck=${false} aria-describedby="why how" required />
      <button class="primary" disabled=${busy}>Log in</button>
    </form>
    <p id="how" class="muted">Create one on the service’s machine, then reload the service:</p>
    <pre><code>tenure token new --name you --may read --file callers</code></pre>
    <p class="muted">Add <code>force</code> to <code>--may</code> to take locks from their holders.
      A session lasts up to 12 hours.</p>
  </section>`;
}
