// What happened, in words: one sentence an event.
import { visible } from "./text.js";
import { span } from "./time.js";

const CAUSES = {
  contended: "someone else holds it", other_kind: "it is in use as another kind of lock", unavailable: "too few nodes answer",
  too_late: "the nodes took longer than the ttl", clocks_set_back: "the clocks of the nodes were set back",
};

const of = (label) => (label ? ` by ${visible(label)}` : "");
const expiry = { true: "expired", false: "released, or taken by force" };

// Mark, title, and the sentence behind it.
const KINDS = {
  acquired: ["●", "Acquired", (e) => `after ${span(e.elapsed_ms)}${e.attempts > 1 ? `, ${e.attempts} attempts` : ""}${e.passed_on_after_ms == null ? "" : `; ${span(e.passed_on_after_ms)} after its release`}`],
  waiting: ["◔", "Waiting", (e) => `${e.ahead} ahead, ${e.waiters} in line${e.label ? `; held${of(e.label)}` : ""}`],
  deadlock: ["✕", "Deadlock", (e) => e.deadlock.map((member) => `${visible(member.label ?? "somebody")} holds ${visible(member.holds)} and waits for ${visible(member.waits_for)}`).join("; ")],
  not_acquired: ["○", "Not acquired", (e) => `${CAUSES[e.cause] ?? e.cause}, after ${span(e.elapsed_ms)}`],
  extended: ["↻", "Extended", (e) => `valid for ${span(e.valid_for_ms)}`],
  not_extended: ["▲", "Not extended", (e) => `too few nodes answered; valid for ${span(e.valid_for_ms)} more`],
  at_risk: ["▲", "At risk", (e) => `the last extension failed; valid for ${span(e.valid_for_ms)} more`],
  safe: ["✓", "Safe again", (e) => `valid for ${span(e.valid_for_ms)}`],
  lost: ["✕", "Lost", (e) => `its holder must stop${e.held_ms == null ? "" : `; held for ${span(e.held_ms)}`}`],
  given_up: ["○", "Given up", (e) => (e.held_ms == null ? "" : `after ${span(e.held_ms)}`)],
  passed_on: ["→", "Passed on", (e) => `to the next task of the same client${e.valid_for_ms == null ? "" : `; valid for ${span(e.valid_for_ms)}`}`],
  forced: ["✕", "Taken by force", (e) => `by ${visible(e.caller ?? "an operator")}: ${visible(e.reason ?? "")}`],
  seen_held: ["●", "Held", (e) => `seen on the nodes${of(e.label)}`],
  seen_changed_hands: ["→", "Changed hands", (e) => `seen on the nodes${e.label ? `; now held${of(e.label)}` : ""}`],
  seen_freed: ["○", "Freed", (e) => `seen on the nodes${e.expired == null ? "" : `: ${expiry[e.expired]}`}`],
  node_distrusted: ["▲", "Node does not vote", (e) => visible(e.reason ?? "")],
  node_trusted: ["✓", "Node votes", () => ""],
  gap: ["…", "Events were missed", (e) => (e.reason === "too_old" ? `${e.missed ?? "some"} are no longer kept` : "another instance, or this one restarted")],
};

const BAD = ["lost", "forced", "deadlock"];
const WARN = ["not_extended", "at_risk", "not_acquired", "node_distrusted", "gap"];

export const kinds = Object.entries(KINDS).map(([kind, [, title]]) => [kind, title]);

export function told(event) {
  const [mark, title, words] = KINDS[event.event] ?? ["·", event.event, () => ""];
  const level = BAD.includes(event.event) ? "bad" : WARN.includes(event.event) ? "warn" : "";
  return { mark, title, words: words(event), level };
}
