#!/usr/bin/env node
// Makes a component of a TypeScript module: esbuild bundles it, componentize-js puts it beside a JavaScript engine.
//
//     layby-build SOURCE [--out FILE] [--wit FOLDER]

import { cp, mkdir, mkdtemp, readFile, realpath, rename, rm, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";

import { componentize } from "@bytecodealliance/componentize-js";
import { build as bundle } from "esbuild";

/** WASI's version in the kit's imports, and the folder of jco that has its WIT. */
const WASI = "0.2.12";
/** Packages that the kit may import beside Layby's own WIT, and those that they use. */
const WASI_PACKAGES = ["wasi-clocks", "wasi-filesystem", "wasi-io"];
/** Interfaces that every plugin has, used or not. */
const ALWAYS = /^layby:plugin\//;

/**
 * Builds the component `out` from the module `source`, which exports `tools`.
 *
 * @param {{ source: string, out: string, wit: string }} options `wit` is the folder of Layby's WIT.
 * @returns {Promise<void>}
 */
export async function build({ source, out, wit }) {
  const work = await mkdtemp(join(tmpdir(), "layby-"));
  try {
    const script = join(work, "plugin.js");
    const imports = await bundleTo(script, source);
    const witPath = join(work, "wit");
    await writeWit(witPath, wit, imports);
    const { component } = await componentize({
      sourcePath: script,
      witPath,
      worldName: "component",
      // A plugin serves no requests, and a host links no HTTP that was not granted.
      disableFeatures: ["http", "fetch-event"],
    });
    await mkdir(dirname(out), { recursive: true });
    // By a rename: a host may be watching the folder.
    await writeFile(`${out}.tmp`, component);
    await rename(`${out}.tmp`, out);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** One module of all, and which of the host's interfaces it imports. */
async function bundleTo(script, source) {
  const imports = new Set();
  const interfaces = {
    name: "interfaces of the host",
    setup(esbuild) {
      // Without side effects, so that interfaces whose functions are not used are not imported.
      esbuild.onResolve({ filter: /^(layby|wasi):/ }, ({ path }) => ({ path, external: true, sideEffects: false }));
    },
  };
  const { metafile } = await bundle({
    entryPoints: [source],
    outfile: script,
    bundle: true,
    format: "esm",
    // Names stay, for stacks to be readable.
    minifySyntax: true,
    target: "es2022",
    platform: "neutral",
    mainFields: ["browser", "module", "main"],
    conditions: ["layby-component", "module", "import", "default"],
    metafile: true,
    logLevel: "warning",
    plugins: [interfaces],
  });
  for (const output of Object.values(metafile.outputs)) {
    output.imports.filter((one) => one.external).forEach((one) => imports.add(one.path));
  }
  return [...imports].filter((one) => !ALWAYS.test(one)).sort();
}

/** Layby's WIT with WASI's, and a world with the interfaces that are used: more would look like needed grants. */
async function writeWit(folder, wit, imports) {
  await cp(wit, folder, { recursive: true });
  if (imports.some((one) => one.startsWith("wasi:filesystem/"))) {
    const builtin = await folderOf("@bytecodealliance/jco", `lib/wit/builtin/${WASI}`);
    for (const name of WASI_PACKAGES) await cp(join(builtin, name), join(folder, "deps", name), { recursive: true });
  }
  const contract = await readFile(join(folder, "plugin.wit"), "utf8");
  const declaration = /^package [^;]+;/m.exec(contract)?.[0];
  if (declaration === undefined) throw new Error(`${join(wit, "plugin.wit")} has no package`);
  const lines = imports.map((one) => `    import ${one};`).join("\n");
  await writeFile(join(folder, "component.wit"), `${declaration}\n\nworld component {\n    include plugin;\n${lines}\n}\n`);
}

/** A folder of an installed package. */
async function folderOf(name, inside) {
  const { resolve: paths } = createRequire(import.meta.url);
  for (const modules of paths.paths(name) ?? []) {
    const manifest = await readFile(join(modules, name, "package.json"), "utf8").catch(() => undefined);
    if (manifest !== undefined) return join(modules, name, inside);
  }
  throw new Error(`${name} is not installed: run npm install`);
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { out: { type: "string" }, wit: { type: "string", default: "wit" } },
  });
  const [source, ...more] = positionals;
  if (source === undefined || more.length > 0) {
    throw new Error("usage: layby-build SOURCE [--out FILE] [--wit FOLDER]");
  }
  const name = basename(source).replace(/\.[^.]+$/, "");
  const out = resolve(values.out ?? join("build", `${name}.wasm`));
  await build({ source: resolve(source), out, wit: resolve(values.wit) });
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(await realpath(process.argv[1])).href) {
  await main().catch((error) => {
    console.error(`layby-build: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  });
}
