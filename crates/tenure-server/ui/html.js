// Templates without a build step: htm parses tagged templates into Preact elements.
import { h } from "preact";
import htm from "htm";

export const html = htm.bind(h);
