// Server-sent events over fetch. EventSource tells no status, takes no header, and so can neither
// say why it ended nor resume where somebody else left off.

// Reads messages until the stream ends. Throws what `fetch` throws, or the answer if it is no
// stream.
export async function read(url, { lastId, signal, onOpen, onBytes, onMessage }) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = lastId;
  const answer = await fetch(url, { headers, signal, cache: "no-store" });
  if (!answer.ok || !answer.headers.get("content-type")?.startsWith("text/event-stream")) throw answer;
  onOpen?.();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new Parser(onMessage);
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    onBytes?.();
    parser.push(value);
  }
}

// Lines into messages, as the HTML standard says it; the service sends `\n` alone.
class Parser {
  constructor(onMessage) {
    this.onMessage = onMessage;
    this.rest = "";
    this.event = "message";
    this.data = [];
    this.id = null;
  }

  push(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    for (const line of lines) this.line(line);
  }

  line(line) {
    if (line === "") {
      const { event, data, id } = this;
      this.event = "message";
      this.data = [];
      this.id = null;
      // An id without data says where to go on from.
      this.onMessage({ event, id, data: data.length ? JSON.parse(data.join("\n")) : null });
      return;
    }
    const colon = line.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") this.event = value;
    else if (field === "data") this.data.push(value);
    else if (field === "id") this.id = value;
  }
}
