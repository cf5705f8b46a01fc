// Holds collections against Postman's schema of the format v2.1.0, in the form of
// the TypeScript types that Insomnia's importers generated from it, and prints as
// JSON what is wrong with each:
//   node collection.cjs COLLECTION...
const { readFileSync } = require("node:fs");
const ts = require("typescript");

const source = require.resolve("insomnia-importers/src/importers/postman-2.1.types.ts");
const anything = /value\?: \{\s*\[k: string\]: unknown;\s*\};/g;
const generated = readFileSync(source, "utf8");
if (generated.match(anything)?.length !== 1) throw new Error("the types are other ones");
// The schema does not restrict a variable's value; the generator made an object of it.
const types = generated.replace(anything, "value?: unknown;");

const problems = (collection) => {
  const files = {
    "/types.ts": types,
    "/collection.ts": `import type { HttpsSchemaGetpostmanComJsonCollectionV210 as Collection } from "./types";
export const collection: Collection = ${readFileSync(collection, "utf8")};`,
  };
  const options = { strict: true, noEmit: true, types: [], lib: ["lib.es5.d.ts"] };
  const host = ts.createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.getSourceFile = (name, ...rest) =>
    name in files ? ts.createSourceFile(name, files[name], rest[0]) : getSourceFile.call(host, name, ...rest);
  host.fileExists = (name) => name in files || fileExists.call(host, name);
  const program = ts.createProgram(["/collection.ts"], options, host);
  return ts.getPreEmitDiagnostics(program).map((d) => ts.flattenDiagnosticMessageText(d.messageText, "\n").slice(-500));
};

console.log(JSON.stringify(process.argv.slice(2).map(problems)));
