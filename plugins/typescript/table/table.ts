/** Statistics of a table. */

import { type Call, ToolError, plugin, result, tool } from "layby";
import { FileError, readChunks } from "layby/files";
import * as z from "zod";

import { type Column, Summary, column, inWords } from "./column.ts";
import { type TableReader, tableReader } from "./reader.ts";

/** Rows between two reports of progress. */
const ROWS = 1_000;

const Input = z.strictObject({
  csv: z.string().optional().describe("The table itself, as CSV text with a header line."),
  path: z.string().optional().describe("Path of a CSV file in a granted folder, such as /tables/people.csv."),
  key: z
    .string()
    .optional()
    .describe("Name of the column that identifies a row; found or asked for where it is not given."),
});

const Output = z.object({
  rows: z.int().nonnegative(),
  key: z.string().optional(),
  duplicates: z.int().nonnegative().optional().describe("Rows whose key is missing or was seen before."),
  columns: z.array(Summary),
});

export const summarizeTable = tool(
  {
    name: "summarize_table",
    title: "Summarize a table",
    description: "Statistics for each column of a CSV file, and which column identifies a row.",
    input: Input,
    output: Output,
    annotations: { readOnly: true },
  },
  ({ csv, path, key }, call) => {
    const table = read(csv, path, call);
    const { columns, rows } = table;
    if (key !== undefined && !columns.some((column) => column.name === key)) {
      const names = columns.map((column) => `"${column.name}"`).join(", ");
      throw new ToolError(`there is no column "${key}"; there are ${names}`);
    }
    const name = key ?? keyOf(table, call);
    const chosen = columns.find((column) => column.name === name);
    const structured: z.output<typeof Output> = {
      rows,
      ...(chosen && { key: chosen.name, duplicates: rows - chosen.distinct() }),
      columns: columns.map((column) => column.summary()),
    };
    return result({ content: told(structured), structured });
  },
);

interface Table {
  columns: Column[];
  rows: number;
}

/** Reads the table that the arguments give. */
function read(csv: string | undefined, path: string | undefined, call: Call): Table {
  let columns: Column[] = [];
  let rows = 0;
  const report = (total?: number) => {
    call.progress(rows, { message: `${rows} rows`, ...(total !== undefined && { total }) });
    call.check();
  };
  const reader = tableReader(
    (names) => (columns = names.map(column)),
    (cells) => {
      for (let i = 0; i < cells.length; i++) columns[i]!.add(cells[i]!);
      rows++;
      if (rows % ROWS === 0) report();
    },
  );
  if ((csv === undefined) === (path === undefined)) throw new ToolError("give either csv or path");
  if (csv !== undefined) reader.readText(csv);
  if (path !== undefined) readFile(path, reader);
  if (rows > 0) report(rows);
  return { columns, rows };
}

function readFile(path: string, reader: TableReader): void {
  try {
    reader.readChunks(readChunks(path));
  } catch (error) {
    if (error instanceof FileError) throw new ToolError(`cannot read ${path}: ${error.reason}`);
    throw error;
  }
}

/** The name of the first column that could identify each row, else of the one that the caller says does. */
function keyOf({ columns, rows }: Table, call: Call): string | undefined {
  if (rows === 0) return undefined;
  const unique = columns.find((column) => column.distinct() === rows);
  if (unique !== undefined) return unique.name;
  const answer = call.ask(
    "key_column",
    "No column has a different value in every row. Which one identifies a row?",
    z.object({ key: z.enum(columns.map((column) => column.name)) }),
  );
  return answer.action === "accept" ? answer.content.key : undefined;
}

function told({ rows, key, duplicates = 0, columns }: z.output<typeof Output>): string {
  const repeated = duplicates > 0 ? `, ${duplicates} duplicates` : "";
  const first = `${rows} rows, ${columns.length} columns, ${key === undefined ? "no key" : `key: ${key}${repeated}`}`;
  return [first, ...columns.map(inWords)].join("\n");
}

export const tools = plugin(summarizeTable);
