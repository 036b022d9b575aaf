// One sentence on how the nodes are: who votes, why others do not, and what that means.
import { left, seconds } from "./time.js";
import { visible } from "./text.js";

// Why a node does not vote, as a state of its own.
export function nodeState(node) {
  if (!node.reachable) return "unreachable";
  if (node.votes) return "votes";
  return node.quarantine_left_ms !== null && node.quarantine_left_ms !== undefined ? "quarantine" : "refused";
}

// Addresses without what all of them share.
export const shortNode = (name) => visible(name.replace(/^rediss?:\/\//, "").replace(/\/0$/, "").replace(/^sqlite:.*\//, ""));

export function health(nodes, at, majority) {
  const needed = majority ?? Math.floor(nodes.length / 2) + 1;
  const votes = nodes.filter((node) => node.votes).length;
  const given = votes >= needed;
  const all = nodes.length === 1 ? "The node votes" : `All ${nodes.length} nodes vote`;
  const some = nodes.length === 1 ? "The node does not vote" : `${votes} of ${nodes.length} nodes vote`;
  const parts = [votes === nodes.length ? all : some];
  const named = (count, words) => (count === 1 ? words.one : words.many);
  const away = nodes.filter((node) => nodeState(node) === "unreachable");
  if (away.length) parts.push(`${away.map((node) => shortNode(node.node)).join(", ")} unreachable`);
  for (const node of nodes.filter((other) => nodeState(other) === "quarantine")) {
    parts.push(`${shortNode(node.node)} in quarantine for ${seconds(left(node.quarantine_left_ms, at))} more`);
  }
  const other = nodes.filter((node) => nodeState(node) === "refused");
  if (other.length) parts.push(`${other.map((node) => shortNode(node.node)).join(", ")} ${named(other.length, { one: "is", many: "are" })} not used`);
  parts.push(given ? "locks are granted" : `no locks are granted: ${needed} must vote`);
  const level = !given ? "bad" : votes < nodes.length ? "warn" : "good";
  return { sentence: `${parts.join("; ")}.`, level, votes, needed, given };
}
