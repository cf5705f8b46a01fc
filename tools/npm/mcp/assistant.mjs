// Connects the official client to a service's tools. Each line of the standard input is a
// request: {authorization} lists the tools, {authorization, name, arguments} calls one. Each
// is answered with a line: {list}, {result, requestID} or {error}.
import { createInterface } from 'node:readline';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

let authorization = '';
let requestID = '';
const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]), {
  fetch: async (url, init) => {
    const headers = new Headers(init?.headers);
    headers.set('Authorization', authorization);
    const answer = await fetch(url, { ...init, headers });
    if (init?.method === 'POST') requestID = answer.headers.get('X-Request-Id');
    return answer;
  },
});
const client = new Client({ name: 'truth', version: '1.0.0' });

let connected = false;
for await (const line of createInterface({ input: process.stdin })) {
  const request = JSON.parse(line);
  authorization = request.authorization;
  let answer;
  try {
    if (!connected) {
      await client.connect(transport);
      connected = true;
    }
    if (request.name === undefined) {
      answer = { list: await client.listTools() };
    } else {
      answer = { result: await client.callTool({ name: request.name, arguments: request.arguments }), requestID };
    }
  } catch (error) {
    answer = { error: `${error}` };
  }
  console.log(JSON.stringify(answer));
}
await client.close();
