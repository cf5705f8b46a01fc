// Converts a Postman collection as Bruno's import does, and writes it as a
// collection of Bruno's:
//
//   node convert.cjs collection.json directory
//
// It prints how many requests there are, the names of those whose scripts still
// speak Postman's language, and the files of those that a pre-request script signs.
const fs = require("fs");
const path = require("path");
const { postmanToBruno } = require("@usebruno/converters");
const { createCollectionFromBrunoObject } = require("@usebruno/cli/src/utils/collection");

const [, , source, directory] = process.argv;
const report = { requests: 0, untranslated: [], signed: [] };

function look(items) {
  for (const item of items) {
    if (item.items) look(item.items);
    if (!item.request) continue;
    report.requests++;
    const { script = {}, tests = "" } = item.request;
    const code = [script.req, script.res, tests].join("\n");
    if (/\bpm\./.test(code)) report.untranslated.push(item.name);
  }
}

// find lists the files in which text stands.
function find(text, folder) {
  return fs.readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return find(text, file);
    return fs.readFileSync(file, "utf8").includes(text) ? [path.relative(directory, file)] : [];
  });
}

(async () => {
  const { collection } = await postmanToBruno(JSON.parse(fs.readFileSync(source, "utf8")));
  look(collection.items);
  fs.mkdirSync(directory);
  await createCollectionFromBrunoObject(collection, directory, { format: "bru" });
  report.signed = find("toString(enc.", directory).sort();
  process.stdout.write(JSON.stringify(report));
})();
