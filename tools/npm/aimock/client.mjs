// OpenAI's official client against the AI gateway before the mock UPSTREAM: BASE_URL and
// KEY are all that it is told. It ends with status 1 at the first thing that is not as its
// users expect.
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });
const asked = (content) => [{ role: 'user', content }];
const text = 'The engine weaves algebraic patterns.';
const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object', properties: { city: { type: 'string' } } } } }];

const befall = (chaos) => fetch(`${process.env.UPSTREAM}/__aimock/chaos`, { method: chaos ? 'POST' : 'DELETE', body: chaos && JSON.stringify(chaos) }).then((a) => assert(a.ok));

async function read(stream) {
  let content = '', usage;
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta?.content ?? '';
    usage = chunk.usage ?? usage;
  }
  return { content, usage };
}

const models = [];
for await (const model of client.models.list()) models.push(model.id);
assert.deepEqual(models.sort(), ['claude', 'echo', 'main']);

for (const model of ['main', 'claude']) {
  const answer = await client.chat.completions.create({ model, messages: asked('weave') });
  assert.equal(answer.choices[0].message.content, text, model);
  const got = await read(await client.chat.completions.create({ model, messages: asked('weave'), stream: true, stream_options: { include_usage: true } }));
  assert.equal(got.content, text, model);
  assert(got.usage.total_tokens >= 0, model);
  for (const called of [
    await client.chat.completions.create({ model, messages: asked('weather'), tools }),
    await client.chat.completions.stream({ model, messages: asked('weather'), tools }).finalChatCompletion(),
  ]) assert.deepEqual(JSON.parse(called.choices[0].message.tool_calls[0].function.arguments), { city: 'Paris' }, model);
  const late = await read(await client.chat.completions.create({ model, messages: asked('late'), stream: true }));
  assert.equal(late.content, 'Late.', model);
  await assert.rejects(client.chat.completions.create({ model, messages: asked('cut'), stream: true }).then(read), { code: 'upstream_error' }, `${model}: a stream that is cut`);
}
const { data } = await client.embeddings.create({ model: 'main', input: 'weave' });
assert(data[0].embedding.length > 10);

// Before the rest: an upstream that has failed often is left alone for a while.
await befall({ latencyMs: 30000 });
await assert.rejects(client.chat.completions.create({ model: 'main', messages: asked('weave') }), { status: 504, code: 'upstream_timeout' });
await befall();
for (const chaos of [{ dropRate: 1 }, { malformedRate: 1 }, { disconnectRate: 1 }, { rateLimitRate: 1 }]) {
  for (const model of ['main', 'claude']) {
    for (const stream of [true, false]) {
      await befall(chaos);
      const told = `${model}, ${JSON.stringify(chaos)}, streaming ${stream}`;
      await assert.rejects(client.chat.completions.create({ model, messages: asked('weave'), stream }).then((a) => stream ? read(a) : a), { code: 'upstream_error' }, told);
      await befall();
    }
  }
}
console.log('as expected');
