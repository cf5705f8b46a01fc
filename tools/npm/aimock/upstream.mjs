// A mock of OpenAI's and Anthropic's servers until it is killed; it prints its address.
// What befalls its answers is set by POST /__aimock/chaos.
import { LLMock } from '@copilotkit/aimock';

const mock = new LLMock({ port: 0, logLevel: 'silent' });
mock.onMessage('weave', { content: 'The engine weaves algebraic patterns.' });
mock.onMessage('weather', { toolCalls: [{ name: 'weather', arguments: { city: 'Paris' } }] });
mock.onMessage('cut', { content: 'The engine weaves algebraic patterns, and goes on for a while.' }, { chunkSize: 4, truncateAfterChunks: 3 });
mock.onMessage('late', { content: 'Late.' }, { streamingProfile: { ttft: 1500 } });
console.log(await mock.start());
