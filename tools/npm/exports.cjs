// Prints as JSON what other people's readers find in the exports:
//   node exports.cjs OPENAPI COLLECTION WORKSPACE
const { readFileSync } = require("node:fs");
const { Collection } = require("postman-collection");
const converter = require("openapi-to-postmanv2");
const importers = require("insomnia-importers");

const [openapi, collection, workspace] = process.argv.slice(2).map((file) => readFileSync(file, "utf8"));

// operations of a collection, each once: several requests may be of the same.
const operations = (json) => {
  const found = new Set();
  new Collection(json).forEachItem((item) => found.add(`${item.request.method} /${item.request.url.path.join("/")}`));
  return [...found].sort();
};

const requests = async (text) => {
  const { type, data } = await importers.convert(text);
  return { reader: type.id, requests: data.resources.filter((r) => r._type === "request").length };
};

converter.convert({ type: "string", data: openapi }, {}, async (error, answer) => {
  if (error || !answer.result) throw error ?? new Error(answer.reason);
  const report = {
    ours: operations(JSON.parse(collection)),
    theirs: operations(answer.output[0].data),
    collection: await requests(collection),
    workspace: await requests(workspace),
  };
  console.log(JSON.stringify(report));
});
