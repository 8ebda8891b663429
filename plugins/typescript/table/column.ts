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

export type Summary = z.output<typeof Summary>;

/** A column's cells so far, without the cells. */
export interface Column {
  readonly name: string;
  /** Adds a trimmed cell. */
  add(cell: string): void;
  distinct(): number;
  summary(): Summary;
}

const INTEGER = /^[+-]?[0-9]{1,15}$/;
const NUMBER = /^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?$/;
const BOOLEAN = /^(?:true|false)$/i;
/** Of a sum that is no finite number. */
const UNIT = 2 ** -64;
/** Half of a character beyond the Basic Multilingual Plane. */
const SURROGATE = /[\ud800-\udfff]/;

/** A column without cells. Its state is in variables, which cost an interpreted engine far less than fields. */
export function column(name: string): Column {
  let values = 0;
  let missing = 0;
  /** The different texts. One that is a number as JavaScript writes it is kept as that, which takes less memory. */
  const seen = new Set<string | number>();
  let distinct = 0;
  // What the column can still be. Most columns show soon what they are, and cost one test a text from then on.
  let integer = true;
  let number = true;
  let boolean = true;
  let min = Infinity;
  let max = -Infinity;
  // The sum of finite numbers may be none: from where it is too large on, it is kept in units of 2^64, which is as
  // exact. No table has so many rows that even that ends.
  let sum = 0;
  let unit = 1;
  let shortest = Infinity;
  let longest = 0;

  /** What a text that was not there before says of the column. */
  function learn(cell: string, value: number): void {
    let length = cell.length;
    if (number) {
      if (integer) integer = INTEGER.test(cell);
      number = (integer || NUMBER.test(cell)) && Number.isFinite(value);
      if (value < min) min = value;
      if (value > max) max = value;
    }
    if (boolean) boolean = BOOLEAN.test(cell);
    if (!number && SURROGATE.test(cell)) length = [...cell].length;
    if (length < shortest) shortest = length;
    if (length > longest) longest = length;
  }

  function addInUnits(value: number): number {
    unit = UNIT;
    return sum * UNIT + value * UNIT;
  }

  function mean(): number {
    const mean = sum / values / unit;
    // What was rounded up could lie beyond all numbers.
    return unit === 1 ? mean : Math.min(Math.max(mean, min), max);
  }

  function type(): Summary["type"] {
    if (values === 0) return "empty";
    if (number) return integer ? "integer" : "number";
    return boolean ? "boolean" : "text";
  }

  return {
    name,
    add(cell) {
      if (cell === "") {
        missing++;
        return;
      }
      values++;
      const value = Number(cell);
      seen.add(!Number.isNaN(value) && String(value) === cell ? value : cell);
      if (seen.size !== distinct) {
        distinct++;
        learn(cell, value);
      }
      if (!number) return;
      const next = sum + value * unit;
      sum = Number.isFinite(next) ? next : addInUnits(value);
    },
    distinct: () => distinct,
    summary() {
      const common = { name, type: type(), values, missing, distinct };
      switch (common.type) {
        case "integer":
        case "number":
          return { ...common, min, max, mean: mean() };
        case "text":
          return { ...common, shortest, longest };
        default:
          return common;
      }
    },
  };
}

/** A column's line of text. */
export function inWords({ name, type, values, missing, distinct, min = 0, max = 0, mean = 0, ...of }: Summary): string {
  const parts = [`${name}: ${type}`, `${values} values`];
  if (missing > 0) parts.push(`${missing} missing`);
  if (type !== "empty") parts.push(`${distinct} distinct`);
  if (type === "text") parts.push(`${of.shortest} to ${of.longest} characters`);
  if (type === "integer" || type === "number") {
    const shown = type === "integer" ? String : twoDecimals;
    parts.push(`${shown(min)} to ${shown(max)}`, `mean ${twoDecimals(mean)}`);
  }
  return parts.join(", ");
}
