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

/** Reads a table, from memory or as UTF-8 that comes in pieces. */
export interface TableReader {
  readText(table: string): void;
  readChunks(chunks: Iterable<Uint8Array>): void;
}

/**
 * Reads CSV (RFC 4180, with line ends of either kind) piece by piece, and says of malformed tables where they are so.
 * `header` takes the names of the columns, `row` the trimmed cells of each row. As in `column`, state is in variables.
 */
export function tableReader(header: (names: string[]) => void, row: (cells: string[]) => void): TableReader {
  /** Columns, once the header was read. */
  let columns: number | undefined;
  /** The line that the next record starts on. */
  let line = 1;
  /** Text that came after the last whole record. */
  let rest = "";
  /** How long that must be to be worth another try: a field that goes on and on is not read again with each piece. */
  let enough = 0;

  function push(piece: string): void {
    rest += piece;
    if (rest.length < enough) return;
    const used = parse(rest, true);
    rest = rest.slice(used);
    enough = used === 0 ? rest.length * 2 : 0;
  }

  function end(): void {
    if (rest !== "") parse(rest, false);
    if (columns === undefined) throw malformed(1, "the table has no header");
  }

  function decode(lines: Uint8Array): void {
    const first = line === 1 && rest === "";
    let text: string;
    try {
      text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(lines);
    } catch {
      findBadLine(lines);
    }
    push(first && text.startsWith(BOM) ? text.slice(1) : text);
  }

  /** Reads line by line up to the one that is not UTF-8. What is wrong before it is told first. */
  function findBadLine(lines: Uint8Array): never {
    const decoder = new TextDecoder("utf-8", { fatal: true });
    for (let start = 0; start < lines.length; ) {
      const next = lines.indexOf(LINE_END, start) + 1 || lines.length;
      let text: string;
      try {
        text = decoder.decode(lines.subarray(start, next));
      } catch {
        break;
      }
      push(text);
      start = next;
    }
    throw malformed(line + count(rest, "\n"), "not UTF-8");
  }

  /** Parses `text`, without its last record where that may go on; returns where it stopped. */
  function parse(text: string, goesOn: boolean): number {
    // Papa splits text without quotes by built-in functions, which are far quicker than code that is interpreted.
    return text.includes('"') ? parseQuoted(text, goesOn) : parsePlain(text, goesOn);
  }

  function parsePlain(text: string, goesOn: boolean): number {
    const { data, meta }: Papa.ParseResult<string[]> = new Papa.Parser(FORMAT).parse(text, 0, goesOn);
    for (const record of data) {
      if (record.length > 1 || (record[0] !== "" && record[0] !== "\r")) take(record, line);
      line++;
    }
    return meta.cursor;
  }

  function parseQuoted(text: string, goesOn: boolean): number {
    let start = 0;
    const step = ({ data, errors, meta }: Papa.ParseStepResult<string[]>) => {
      if (errors.some((error) => error.code === "MissingQuotes")) {
        throw malformed(line, "a quoted field is not closed");
      }
      // Papa's parser gives each step a list of one row, whatever its types say.
      const [record = []] = data as unknown as string[][];
      const raw = text.slice(start, meta.cursor);
      start = meta.cursor;
      // An empty field in quotes is no blank line.
      const blank = record.length === 1 && raw.trim() === "";
      const lines = record.some(hasLineEnd) ? count(raw, "\n") : 1;
      if (!blank) take(record, line);
      line += lines;
    };
    new Papa.Parser({ ...FORMAT, step }).parse(text, 0, goesOn);
    return start;
  }

  /** Takes the record that starts on the line `at`. */
  function take(record: string[], at: number): void {
    for (let i = 0; i < record.length; i++) {
      const cell = record[i]!;
      // The built-in function also takes other kinds of space, but rarely has anything to do.
      if (cell.trim().length !== cell.length) record[i] = cell.replace(SPACE_AROUND, "");
    }
    if (record.length === columns) {
      row(record);
    } else if (columns === undefined) {
      checkHeader(record, at);
      columns = record.length;
      header(record);
    } else {
      throw malformed(at, `${record.length} fields, and the header has ${columns}`);
    }
  }

  return {
    readText(table) {
      const start = table.startsWith(BOM) ? 1 : 0;
      for (let at = start; at < table.length; at += SLICE) push(table.slice(at, at + SLICE));
      end();
    },
    readChunks(chunks) {
      for (const lines of wholeLines(chunks)) decode(lines);
      end();
    },
  };
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
