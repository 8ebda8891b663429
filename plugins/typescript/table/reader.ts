import { ToolError } from "layby";
import Papa from "papaparse";

/** Characters of a table in memory that are parsed at once. */
const SLICE = 64 * 1024;
const LINE_END = 10;
const BOM = "\ufeff";
const SPACE_AROUND = /^[ \t\r]+|[ \t\r]+$/g;
/** Papa takes the carriage return of a line's end for a character; it goes with the spaces. */
const FORMAT = { delimiter: ",", newline: "\n" } as const;

/** The line that something is wrong with. */
function malformed(line: number, what: string): ToolError {
  return new ToolError(`line ${line}: ${what}`);
}

/** Reads CSV (RFC 4180, with line ends of either kind) piece by piece, and says of malformed tables where they are so. */
export class TableReader {
  readonly #header: (names: string[]) => void;
  /** Takes the trimmed cells of a row. */
  readonly #row: (cells: string[]) => void;
  /** Columns, once the header was read. */
  #columns: number | undefined;
  /** The line that the next record starts on. */
  #line = 1;
  /** Text that came after the last whole record. */
  #rest = "";
  /** How long that must be to be worth another try: a field that goes on and on is not read again with each piece. */
  #enough = 0;

  constructor(header: (names: string[]) => void, row: (cells: string[]) => void) {
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
    // Papa splits text without quotes by built-in functions, which are far quicker than code that is interpreted.
    return text.includes('"') ? this.#parseQuoted(text, goesOn) : this.#parsePlain(text, goesOn);
  }

  #parsePlain(text: string, goesOn: boolean): number {
    const { data, meta }: Papa.ParseResult<string[]> = new Papa.Parser(FORMAT).parse(text, 0, goesOn);
    for (const record of data) {
      const line = this.#line++;
      if (record.length > 1 || (record[0] !== "" && record[0] !== "\r")) this.#record(record, line);
    }
    return meta.cursor;
  }

  #parseQuoted(text: string, goesOn: boolean): number {
    let start = 0;
    const step = ({ data, errors, meta }: Papa.ParseStepResult<string[]>) => {
      const line = this.#line;
      if (errors.some((error) => error.code === "MissingQuotes")) {
        throw malformed(line, "a quoted field is not closed");
      }
      // Papa's parser gives each step a list of one row, whatever its types say.
      const [record = []] = data as unknown as string[][];
      const raw = text.slice(start, meta.cursor);
      start = meta.cursor;
      this.#line += record.some(hasLineEnd) ? count(raw, "\n") : 1;
      // An empty field in quotes is no blank line.
      if (record.length > 1 || raw.includes('"') || raw.trim() !== "") this.#record(record, line);
    };
    new Papa.Parser({ ...FORMAT, step }).parse(text, 0, goesOn);
    return start;
  }

  /** Takes the record that starts on `line`. */
  #record(record: string[], line: number): void {
    for (let i = 0; i < record.length; i++) record[i] = trimmed(record[i]!);
    if (this.#columns === undefined) {
      checkHeader(record, line);
      this.#columns = record.length;
      this.#header(record);
    } else if (record.length !== this.#columns) {
      throw malformed(line, `${record.length} fields, and the header has ${this.#columns}`);
    } else {
      this.#row(record);
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

/** Without spaces, tabs and the carriage return of a line's end around it. */
function trimmed(cell: string): string {
  // The built-in function also takes other kinds of space, but rarely has anything to do.
  return cell.trim().length === cell.length ? cell : cell.replace(SPACE_AROUND, "");
}
