// Sends the requests of an Insomnia v4 export in the application's order, scripts
// included, and prints as JSON which of their tests failed:
//   node insomnia.cjs WORKSPACE NAME=VALUE...
// It stands in for the application, of which there is no release to run here: the
// members of `insomnia` are those of its scripting environment.
const { readFileSync } = require("node:fs");
const assert = require("node:assert");
const uuid = require("uuid");

const [file, ...values] = process.argv.slice(2);
const { resources } = JSON.parse(readFileSync(file, "utf8"));
const base = resources.find((r) => r._type === "environment").data;
for (const value of values) {
  const [name, ...rest] = value.split("=");
  base[name] = rest.join("=");
}

const render = (text) =>
  text
    .replace(/\{\{ _\.(\w+) \}\}/g, (_, name) => {
      assert.ok(name in base, `${name} is not in the environment`);
      return base[name];
    })
    .replace(/\{% uuid 'v4' %\}/g, () => uuid.v4())
    .replace(/\{% now 'unix', '' %\}/g, () => Math.floor(Date.now() / 1000))
    .replace(/\{% now 'iso-8601', '' %\}/g, () => new Date().toISOString());

// expectation has the few assertions that our scripts use.
const expectation = (value) => {
  const oneOf = (negated) => (list) => assert.notStrictEqual(list.includes(value), negated, `${value} and ${list}`);
  return { to: { be: { oneOf: oneOf(false), below: (n) => assert.ok(value < n) }, not: { be: { oneOf: oneOf(true) } } } };
};

const execute = (script, insomnia) => new Function("insomnia", "require", script)(insomnia, require);

async function send(r, report) {
  const request = {
    headers: r.headers.filter((h) => !h.disabled).map((h) => [h.name, h.value]),
    body: { raw: r.body.text, update: (options) => (request.body.raw = options.raw) },
    upsertHeader: ({ key, value }) => request.headers.push([key, value]),
  };
  const insomnia = {
    request,
    variables: { get: (name) => base[name] },
    collectionVariables: { set: (name, value) => (base[name] = value) },
    expect: expectation,
    test: (name, check) => {
      report.tests++;
      try {
        check();
      } catch (error) {
        report.failures.push(`${r.name}: ${name}: ${error.message}`);
      }
    },
  };
  if (r.preRequestScript) execute(r.preRequestScript, insomnia);
  const auth = r.authentication;
  if (auth.type === "bearer") request.headers.push(["Authorization", `Bearer ${auth.token}`]);
  if (auth.type === "apikey") request.headers.push([auth.key, auth.value]);
  const url = new URL(render(r.url));
  for (const p of r.parameters) if (!p.disabled) url.searchParams.append(p.name, render(p.value));
  const headers = request.headers.map(([name, value]) => [name, render(value)]);
  let body = request.body.raw === undefined ? undefined : render(request.body.raw);
  if (r.body.mimeType === "multipart/form-data") {
    body = new FormData(); // brings its own Content-Type, as Insomnia does
    for (const p of r.body.params) body.append(p.name, render(p.value));
  }
  const answer = await fetch(url, { method: r.method, headers, body, redirect: r.settingFollowRedirects === "off" ? "manual" : "follow" });
  const text = await answer.text();
  insomnia.response = { code: answer.status, json: () => JSON.parse(text) };
  execute(r.afterResponseScript, insomnia);
  report.requests++;
}

async function walk(parent, report) {
  const children = resources.filter((r) => r.parentId === parent && r.metaSortKey !== undefined);
  for (const r of children.sort((a, b) => a.metaSortKey - b.metaSortKey)) {
    if (r._type === "request") await send(r, report);
    else await walk(r._id, report);
  }
}

const report = { requests: 0, tests: 0, failures: [] };
walk(resources[0]._id, report).then(() => console.log(JSON.stringify(report)));
