// OpenAI's official client against the AI gateway: BASE_URL and KEY are all that it is
// told. It ends with status 1 at the first thing that is not as its users expect.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });
const messages = [{ role: 'user', content: 'How does the engine weave?' }];
const text = 'The engine weaves algebraic patterns.';
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];
const image = { role: 'user', content: [{ type: 'text', text: 'What is this?' }, { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } }] };

async function fails(what, promise, expected) {
  await assert.rejects(promise, (error) => {
    for (const [name, value] of Object.entries(expected)) assert.equal(error[name], value, `${what}: ${name} of ${error}`);
    assert(!String(error.stack).includes('sk-of-the-upstream'), what);
    return true;
  }, what);
}

async function read(stream) {
  let content = '', usage, finish;
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta?.content ?? '';
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  return { content, usage, finish };
}

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert(models.includes('fine') && models.includes('claude') && models.includes('echo'), `models: ${models}`);

for (const model of ['fine', 'claude', 'flaky', 'slow', 'no-usage']) {
  const { data, response } = await client.chat.completions.create({ model, messages: [{ role: 'system', content: 'Be brief.' }, ...messages] }).withResponse();
  assert.equal(data.choices[0].message.content, text, model);
  assert.equal(data.choices[0].finish_reason, 'stop', model);
  for (const of of ['requests', 'tokens']) {
    assert(Number(response.headers.get(`x-ratelimit-limit-${of}`)) > Number(response.headers.get(`x-ratelimit-remaining-${of}`)), `${model}: headers`);
    assert.match(response.headers.get(`x-ratelimit-reset-${of}`), /^[0-9.]+(ms|s)$|^1m0s$/);
  }
  if (model !== 'no-usage') assert.deepEqual([data.usage.prompt_tokens, data.usage.completion_tokens], [7, 5], model);
}
for (const model of ['fine', 'claude']) {
  for (const include_usage of [true, false]) {
    const got = await read(await client.chat.completions.create({ model, messages, stream: true, stream_options: { include_usage } }));
    assert.deepEqual([got.content, got.finish, got.usage?.completion_tokens], [text, 'stop', include_usage ? 5 : undefined], model);
  }
  const seen = await client.chat.completions.create({ model, messages: [image], max_tokens: 2 });
  assert.equal(seen.choices[0].message.content, 'The engine ', model);
}
for (const model of ['tool', 'claude-tool']) {
  const answer = (await client.chat.completions.create({ model, messages, tools, tool_choice: 'auto' })).choices[0].message;
  assert.deepEqual(JSON.parse(answer.tool_calls[0].function.arguments), { city: 'Paris' }, model);
  const runner = client.chat.completions.stream({ model, messages, tools });
  const final = await runner.finalChatCompletion();
  assert.deepEqual(JSON.parse(final.choices[0].message.tool_calls[0].function.arguments), { city: 'Paris' }, model);
  const back = await client.chat.completions.create({ model: model === 'tool' ? 'fine' : 'claude', tools, messages: [...messages, answer, { role: 'tool', tool_call_id: answer.tool_calls[0].id, content: '18 degrees' }] });
  assert.equal(back.choices[0].message.content, text, model);
}
assert.deepEqual((await client.embeddings.create({ model: 'fine', input: ['a'], encoding_format: 'float' })).data[0].embedding, [0.5, -0.5]);
assert.equal((await client.embeddings.create({ model: 'echo', input: 'a' })).data[0].embedding.length, 32);
await fails('embeddings', client.embeddings.create({ model: 'claude', input: 'a' }), { status: 400 });

await fails('unknown', client.chat.completions.create({ model: 'unknown', messages }), { status: 404, code: 'model_not_found', param: 'model', type: 'invalid_request_error' });
await fails('theirs', client.chat.completions.create({ model: 'editors', messages }), { status: 403, code: 'model_not_allowed' });
await fails('two answers', client.chat.completions.create({ model: 'fine', messages, n: 2 }), { status: 400, param: 'n' });
await fails('no key', new OpenAI({ baseURL: process.env.BASE_URL, apiKey: 'none', maxRetries: 0 }).models.list(), { status: 401, code: 'invalid_api_key' });
for (const model of ['busy', 'broken', 'quoting', 'claude-broken', 'claude-quoting']) {
  await fails(model, client.chat.completions.create({ model, messages }), { status: 502, code: 'upstream_error' });
}
await fails('refusing', client.chat.completions.create({ model: 'refusing', messages }), { status: 400, code: 'upstream_refused' });
await fails('silent', client.chat.completions.create({ model: 'silent', messages }), { status: 504, code: 'upstream_timeout' });
for (const model of ['cut', 'malformed', 'hangs', 'claude-cut', 'claude-malformed']) {
  await fails(model, client.chat.completions.create({ model, messages, stream: true }).then(read), { code: model === 'hangs' ? 'upstream_timeout' : 'upstream_error' });
}
// An abort is no error for whoever asked for it.
const endless = await client.chat.completions.create({ model: 'endless', messages, stream: true });
let pieces = 0;
for await (const _ of endless) if (++pieces === 20) break;
assert.equal(pieces, 20);
await fails('budget', new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.POOR_KEY }).chat.completions.create({ model: 'fine', messages }), { status: 429, code: 'budget_exceeded' });
console.log('as expected');
