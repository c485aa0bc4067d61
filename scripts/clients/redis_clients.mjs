// Drives a running server's takeanumber port with node-redis and ioredis, as their users get them.
//
// Needs: Node.js 20 or later, and `npm ci` in this folder (versions are pinned in package-lock.json).
// Usage: node redis_clients.mjs HOST PORT

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import Redis from 'ioredis';
import { createClient, RESP_TYPES } from 'redis';

const [host, portText, ...more] = process.argv.slice(2);
if (portText === undefined || more.length > 0) {
  console.error('Usage: node redis_clients.mjs HOST PORT');
  process.exit(2);
}
const port = Number(portText);
const BINARY = Buffer.from([0x00, 0xff, 0xfe, 0x80]);
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

function check(label, what, actual, expected) {
  assert.deepEqual(actual, expected, `${label}: ${what}`);
  console.log(`${label}: ${what}`);
}

async function checkError(label, what, message, call) {
  await assert.rejects(call, (error) => error.message.endsWith(message), `${label}: ${what}`);
  console.log(`${label}: ${what}`);
}

/** The same for every client: `run` resolves to text or a number, `runBytes` to bytes. */
async function drive(label, { run, runBytes, ping }) {
  const queue = `${label.replaceAll(' ', '-')}-${randomUUID()}`;
  check(label, 'ping', await ping(), 'PONG');
  check(label, 'an unknown queue is empty', await run('LEN', queue), 0);
  check(label, 'nothing to reserve', await run('RESERVE', queue), -1);

  const first = await run('ADD', queue, '1', '{"thing": 1}');
  assert.match(first, UUID);
  check(label, 'one waits', await run('LEN', queue), 1);
  check(label, 'it is reserved', await run('RESERVE', queue), `${first} {"thing": 1}`);
  check(label, 'none waits', await run('LEN', queue), 0);
  check(label, 'a retry', await run('RETRY', queue, first), 'OK');
  check(label, 'it is back', await run('RESERVE', queue), `${first} {"thing": 1}`);
  await checkError(label, 'no retry left', 'No retries remaining.', () => run('RETRY', queue, first));
  await checkError(label, 'it is gone', 'No such Id.', () => run('DONE', queue, first));

  for (const [what, body] of [
    ['a body of lines', 'two\r\nlines'],
    ['a body of 1 MiB', 'x'.repeat(1 << 20)],
  ]) {
    const id = await run('ADD', queue, '0', body);
    check(label, what, await run('RESERVE', queue), `${id} ${body}`);
    check(label, 'done', await run('DONE', queue, id), 'OK');
  }
  const binary = await run('ADD', queue, '0', BINARY);
  const expected = Buffer.concat([Buffer.from(`${binary} `), BINARY]);
  check(label, 'a binary body', Buffer.compare(await runBytes('RESERVE', queue), expected), 0);
  check(label, 'done', await run('DONE', queue, binary), 'OK');

  await checkError(label, 'no body', 'No body provided.', () => run('ADD', queue, '0', ''));
  await checkError(label, 'bad retries', 'Invalid number of retries.', () => run('ADD', queue, 'x', 'body'));
  await checkError(label, 'too few words', 'Missing ADD parameters.', () => run('ADD', queue, '0'));
  await checkError(label, 'no such command', 'Unrecognized command.', () => run('LPUSH', queue, 'body'));

  const numbers = Array.from({ length: 500 }, (_, number) => number);
  const ids = await Promise.all(numbers.map((number) => run('ADD', queue, '0', `job ${number}`)));
  const taken = await Promise.all(numbers.map(() => run('RESERVE', queue)));
  check(label, '500 jobs sent without waiting, in order', taken, numbers.map((number) => `${ids[number]} job ${number}`));
  const done = await Promise.all(ids.map((id) => run('DONE', queue, id)));
  check(label, '500 done', done, ids.map(() => 'OK'));
  const mixed = await Promise.allSettled([run('LEN', queue), run('DONE', queue, 'nobody'), run('LEN', queue)]);
  check(label, 'an error between answers', mixed.map((one) => one.status), ['fulfilled', 'rejected', 'fulfilled']);
}

async function driveNodeRedis(label, options) {
  const client = createClient({ socket: { host, port }, ...options });
  client.on('error', (error) => assert.fail(`${label}: ${error}`));
  await client.connect();
  const bytes = client.withTypeMapping({ [RESP_TYPES.SIMPLE_STRING]: Buffer, [RESP_TYPES.BLOB_STRING]: Buffer });
  await drive(label, {
    ping: () => client.ping(),
    run: (...words) => client.sendCommand(words),
    runBytes: (...words) => bytes.sendCommand(words),
  });
  await client.close();
}

async function driveIoredis(label, options) {
  const client = new Redis(port, host, options);
  client.on('error', (error) => assert.fail(`${label}: ${error}`));
  await drive(label, {
    ping: () => client.ping(),
    run: (...words) => client.call(...words),
    runBytes: (...words) => client.callBuffer(...words),
  });
  const pipeline = client.pipeline().call('LEN', 'nobody').call('RESERVE', 'nobody').call('DONE', 'nobody', 'x');
  const [[, length], [, none], [error]] = await pipeline.exec();
  check(label, 'a pipeline', [length, none, error.message], [0, -1, 'ERR No such Id.']);
  check(label, 'quit', await client.quit(), 'OK');
}

await driveNodeRedis('node-redis with defaults', {});
await driveNodeRedis('node-redis with RESP2', { RESP: 2 });
await driveNodeRedis('node-redis with RESP3', { RESP: 3 });
await driveNodeRedis('node-redis with name and password', { name: 'worker-1', username: 'default', password: 'any' });
await driveIoredis('ioredis with defaults', {});
await driveIoredis('ioredis with RESP2', { protocol: 2 });
await driveIoredis('ioredis with name and password', { connectionName: 'worker-1', username: 'default', password: 'any' });

const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
console.log(`node-redis ${dependencies.redis}, ioredis ${dependencies.ioredis}: all as expected`);
