import { ToolError } from "layby";
import Papa from "papaparse";

/** The trimmed cells of a row. */
export type Cells = string[];

/** Characters of a table in memory that are parsed at once. */
const SLICE = 64 * 1024;
const LINE_END = 10;
const BOM = "\ufeff";

/** The line that something is wrong with. */
function malformed(line: number, what: string): ToolError {
  return new ToolError(`line ${line}: ${what}`);
}

/** Reads CSV (RFC 4180, with line ends of either kind) piece by piece, and says of malformed tables where they are so. */
export class TableReader {
  readonly #header: (names: string[]) => void;
  readonly #row: (cells: Cells) => void;
  /** Columns, once the header was read. */
  #columns: number | undefined;
  /** The line that the next record starts on. */
  #line = 1;
  /** Text that came after the last whole record. */
  #rest = "";
  /** How long that must be to be worth another try: a field that goes on and on is not read again with each piece. */
  #enough = 0;

  constructor(header: (names: string[]) => void, row: (cells: Cells) => void) {
    this.#header = header;
    this.#row = row;
  }

  /** Reads a table that is in memory. */
  readText(table: string): void {
    const start = table.startsWith(BOM) ? 1 : 0;
    for (let at = start; at < table.length; at += SLICE) this.#push(table.slice(at, at + SLICE));
    this.#end();
  }

  /** Reads a table that comes in pieces, as UTF-8. */
  readChunks(chunks: Iterable<Uint8Array>): void {
    for (const lines of wholeLines(chunks)) this.#decode(lines);
    this.#end();
  }

  #decode(lines: Uint8Array): void {
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    let text: string;
    try {
      text = decoder.decode(lines);
    } catch {
      this.#findBadLine(lines);
      return;
    }
    this.#push(this.#line === 1 && this.#rest === "" && text.startsWith(BOM) ? text.slice(1) : text);
  }

  /** Reads line by line up to the one that is not UTF-8. What is wrong before it is told first. */
  #findBadLine(lines: Uint8Array): never {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    for (let start = 0; start < lines.length; ) {
      const end = lines.indexOf(LINE_END, start) + 1 || lines.length;
      let line: string;
      try {
        line = decoder.decode(lines.subarray(start, end));
      } catch {
        break;
      }
      this.#push(line);
      start = end;
    }
    throw malformed(this.#line + count(this.#rest, "\n"), "not UTF-8");
  }

  #push(piece: string): void {
    this.#rest += piece;
    if (this.#rest.length < this.#enough) return;
    const used = this.#parse(this.#rest, true);
    this.#rest = this.#rest.slice(used);
    this.#enough = used === 0 ? this.#rest.length * 2 : 0;
  }

  #end(): void {
    if (this.#rest !== "") this.#parse(this.#rest, false);
    if (this.#columns === undefined) throw malformed(1, "the table has no header");
  }

  /** Parses `text`, without its last record where that may go on; returns where it stopped. */
  #parse(text: string, goesOn: boolean): number {
    let start = 0;
    const parser = new Papa.Parser({
      delimiter: ",",
      // Papa then takes a carriage return for a character; it is dropped with the spaces.
      newline: "\n",
      step: ({ data, errors, meta }: Papa.ParseStepResult<string[]>) => {
        if (errors.some((error) => error.code === "MissingQuotes")) {
          throw malformed(this.#line, "a quoted field is not closed");
        }
        const end = meta.cursor;
        // The typed rows are rows of one; Papa's own steps are lists of them.
        const [record] = data as unknown as string[][];
        if (record !== undefined) this.#record(record, text, start, end);
        start = end;
      },
    });
    parser.parse(text, 0, goesOn);
    return start;
  }

  /** Takes the record that is `text` from `start` to `end`. */
  #record(record: string[], text: string, start: number, end: number): void {
    const line = this.#line;
    this.#line += record.some(hasLineEnd) ? count(text.slice(start, end), "\n") : 1;
    if (record.length === 1 && isBlank(text, start, end)) return;
    const cells = record.map(trimmed);
    if (this.#columns === undefined) {
      checkHeader(cells, line);
      this.#columns = cells.length;
      this.#header(cells);
    } else if (cells.length !== this.#columns) {
      throw malformed(line, `${cells.length} fields, and the header has ${this.#columns}`);
    } else {
      this.#row(cells);
    }
  }
}

function checkHeader(names: string[], line: number): void {
  const seen = new Set<string>();
  names.forEach((name, i) => {
    if (name === "") throw malformed(line, `column ${i + 1} has no name`);
    if (seen.has(name)) throw malformed(line, `two columns are named "${name}"`);
    seen.add(name);
  });
}

/** The bytes again, cut after line ends: no character is cut in two. */
function* wholeLines(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let parts: Uint8Array[] = [];
  for (const chunk of chunks) {
    const end = chunk.lastIndexOf(LINE_END) + 1;
    if (end === 0) {
      parts.push(chunk);
      continue;
    }
    yield joined([...parts, chunk.subarray(0, end)]);
    parts = end < chunk.length ? [chunk.subarray(end)] : [];
  }
  if (parts.length > 0) yield joined(parts);
}

function joined(parts: Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

function count(text: string, what: string): number {
  let found = 0;
  for (let at = text.indexOf(what); at >= 0; at = text.indexOf(what, at + 1)) found++;
  return found;
}

const hasLineEnd = (field: string): boolean => field.includes("\n");

function isBlank(text: string, start: number, end: number): boolean {
  const line = text.slice(start, end);
  return line === "\n" || line === "\r\n" || line === "" || line === "\r";
}

/** Without spaces, tabs and the carriage return of a line's end around it. */
function trimmed(cell: string): string {
  let start = 0;
  let end = cell.length;
  while (start < end && isSpace(cell.charCodeAt(start))) start++;
  while (start < end && isSpace(cell.charCodeAt(end - 1))) end--;
  return start === 0 && end === cell.length ? cell : cell.slice(start, end);
}

const isSpace = (code: number): boolean => code === 32 || code === 9 || code === 13;
