// What beanstalkd_clients.mjs needs around a behaviour: tubes and clients of its own, expectations, and a line that can
// be cut.

import assert from 'node:assert/strict';
import { randomBytes, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as after } from 'node:timers/promises';

/** How long the server may take beyond the time that is the subject. */
export const PATIENCE_S = 5;
/** How early the end of a wait may be seen: clocks and whole seconds are compared. */
const EARLY_S = 0.1;
/** What comes in several pieces; the server's limit must not be less. */
export const LARGE = [64 << 10, 1 << 20];

/** No piece of them is like another, so that none can be lost, doubled or put elsewhere. The text is whole. */
export function largeBodies(size) {
  const lines = Array.from({ length: Math.floor(size / 32) }, (_, number) => `${number}: Grüße, 世界 🌱\r\n`);
  const text = Buffer.from(lines.join(''));
  assert.ok(text.length > 0.8 * size && text.length <= size, `expected a text of up to ${size} bytes, got ${text.length}`);
  return [['bytes', randomBytes(size), 'bytes'], ['text', Buffer.concat([text, Buffer.alloc(size - text.length, 'x')])]];
}

/** One behaviour of one library. */
export class Trial {
  constructor(Library, address) {
    Object.assign(this, { Library, address, clients: new Set(), tubes: new Set() });
    this.prefix = `${Library.package}-${randomUUID()}`;
  }

  has(call) {
    return !this.Library.lacks.includes(call);
  }

  tube(name = 'tube') {
    this.tubes.add(`${this.prefix}-${name}`);
    return `${this.prefix}-${name}`;
  }

  async client({ use = this.tube(), watch = [use], address = this.address, Library = this.Library } = {}) {
    const client = new Library(address);
    await client.connect();
    this.clients.add(client);
    await this.settle(client, use, watch);
    return client;
  }

  async settle(client, use, watch) {
    await client.use(use);
    for (const tube of watch) await client.watch(tube);
    if (!watch.includes('default')) await client.ignore('default');
  }

  async close(client) {
    this.clients.delete(client);
    await client.close();
  }

  /** A tube that holds no job and that no client refers to is no more. */
  async end() {
    for (const client of this.clients) await client.close();
    const monitor = new this.Library(this.address);
    await monitor.connect();
    const left = async () => (await monitor.tubes()).filter((tube) => this.tubes.has(tube));
    await this.until('nothing is left behind', async () => (await left()).length === 0);
    await monitor.close();
  }

  expect(what, actual, expected) {
    assert.deepEqual(actual, expected, `${what}: expected ${brief(expected)}, got ${brief(actual)}`);
  }

  expectJob(what, job, id, body) {
    this.expect(`${what}: id`, job.id, id);
    const wanted = Buffer.from(body);
    assert.ok(job.body.equals(wanted), `${what}: expected ${start(wanted)}, got ${start(job.body)}`);
  }

  /** Pairs are the least and the most that may be. */
  expectIn(stats, expected) {
    for (const [key, value] of Object.entries(expected)) {
      const [least, most] = Array.isArray(value) ? value : [value, value];
      const message = `${key}: expected ${value}, got ${stats[key]} in ${JSON.stringify(stats)}`;
      assert.ok(stats[key] >= least && stats[key] <= most, message);
    }
  }

  async expectStats(client, id, expected) {
    this.expectIn(await client.statsJob(id), { id, tube: this.tube(), ...expected });
  }

  async expectWord(what, word, call) {
    let result;
    try {
      result = await call();
    } catch (error) {
      assert.equal(this.Library.word(error), word, `${what}: expected ${word}, got ${error}`);
      return;
    }
    assert.fail(`${what}: expected ${word}, got ${brief(result)}`);
  }

  async delete(client, ...ids) {
    for (const id of ids) await client.delete(id);
  }

  async takes(what, seconds, work) {
    const start = performance.now();
    await work();
    const taken = (performance.now() - start) / 1000;
    const message = `${what}: expected ${seconds} s, took ${taken.toFixed(2)} s`;
    assert.ok(taken >= seconds - EARLY_S && taken <= seconds + PATIENCE_S, message);
  }

  async until(what, holds) {
    const deadline = performance.now() + PATIENCE_S * 1000;
    while (!(await holds())) {
      assert.ok(performance.now() < deadline, `expected within ${PATIENCE_S} s: ${what}`);
      await after(10);
    }
  }
}

function brief(value) {
  return String(JSON.stringify(value)).slice(0, 300);
}

function start(body) {
  return `${body.length} bytes, ${brief(`${body.subarray(0, 300)}`)}`;
}

/** Passes everything on to the server, until it is cut. */
export class Relay {
  constructor(server) {
    this.ends = [];
    this.listener = createServer((near) => {
      const far = connect(server);
      for (const end of [near, far]) this.ends.push(end.on('error', () => {}));
      near.pipe(far).pipe(near);
    });
  }

  async open() {
    this.listener.listen(0, '127.0.0.1');
    await once(this.listener, 'listening');
    return { host: '127.0.0.1', port: this.listener.address().port };
  }

  cut() {
    for (const end of this.ends) end.destroy();
  }

  close() {
    this.listener.close();
  }
}
