import * as z from "zod";

import { twoDecimals } from "./decimals.ts";

export const Summary = z.object({
  name: z.string(),
  type: z.enum(["integer", "number", "boolean", "text", "empty"]),
  values: z.int().nonnegative().describe("Cells that are not missing."),
  missing: z.int().nonnegative(),
  distinct: z.int().nonnegative(),
  min: z.number().optional(),
  max: z.number().optional(),
  mean: z.number().optional(),
  shortest: z.int().optional().describe("Characters of the shortest text."),
  longest: z.int().optional(),
});

type Type = z.output<typeof Summary>["type"];

const INTEGER = /^[+-]?[0-9]{1,15}$/;
const NUMBER = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$/;
const BOOLEAN = /^(?:true|false)$/i;
/** Half of a character beyond the Basic Multilingual Plane. */
const SURROGATE = /[\ud800-\udfff]/;

/** A column's cells so far, without the cells. */
export class Column {
  readonly name: string;
  values = 0;
  missing = 0;
  readonly #seen = new Set<string>();

  // What the column can still be. Most columns show soon what they are, and cost one test a text from then on.
  #integer = true;
  #number = true;
  #boolean = true;

  #min = Infinity;
  #max = -Infinity;
  #sum = 0;
  #shortest = Infinity;
  #longest = 0;

  constructor(name: string) {
    this.name = name;
  }

  /** Adds a trimmed cell. */
  add(cell: string): void {
    if (cell === "") {
      this.missing++;
      return;
    }
    this.values++;
    const before = this.#seen.size;
    this.#seen.add(cell);
    if (this.#seen.size > before) this.#learn(cell);
    if (this.#number) this.#sum += Number(cell);
  }

  /** What a text that was not there before says of the column. */
  #learn(cell: string): void {
    if (this.#integer) this.#integer = INTEGER.test(cell);
    if (this.#number) this.#number = (this.#integer || NUMBER.test(cell)) && Number.isFinite(Number(cell));
    if (this.#boolean) this.#boolean = BOOLEAN.test(cell);
    if (this.#number) {
      const value = Number(cell);
      if (value < this.#min) this.#min = value;
      if (value > this.#max) this.#max = value;
    }
    const length = this.#number ? cell.length : lengthOf(cell);
    if (length < this.#shortest) this.#shortest = length;
    if (length > this.#longest) this.#longest = length;
  }

  get distinct(): number {
    return this.#seen.size;
  }

  get type(): Type {
    if (this.values === 0) return "empty";
    if (this.#integer) return "integer";
    if (this.#number) return "number";
    return this.#boolean ? "boolean" : "text";
  }

  summary(): z.output<typeof Summary> {
    const { name, type, values, missing, distinct } = this;
    const common = { name, type, values, missing, distinct };
    switch (type) {
      case "integer":
      case "number":
        return { ...common, min: this.#min, max: this.#max, mean: this.#sum / values };
      case "text":
        return { ...common, shortest: this.#shortest, longest: this.#longest };
      default:
        return common;
    }
  }

  inWords(): string {
    const { type } = this;
    const parts = [`${this.name}: ${type}`, `${this.values} values`];
    if (this.missing > 0) parts.push(`${this.missing} missing`);
    if (type !== "empty") parts.push(`${this.distinct} distinct`);
    if (type === "text") parts.push(`${this.#shortest} to ${this.#longest} characters`);
    if (type === "integer" || type === "number") {
      const shown = type === "integer" ? String : twoDecimals;
      parts.push(`${shown(this.#min)} to ${shown(this.#max)}`, `mean ${twoDecimals(this.#sum / this.values)}`);
    }
    return parts.join(", ");
  }
}

/** Characters of a text: Unicode code points, not JavaScript's units. */
function lengthOf(text: string): number {
  return SURROGATE.test(text) ? [...text].length : text.length;
}
