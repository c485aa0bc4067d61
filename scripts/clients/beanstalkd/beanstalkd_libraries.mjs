// jackd, fivebeans, node-beanstalk and beanstalkd, each through its own calls, for beanstalkd_clients.mjs to ask the
// same of all: ids are numbers, bodies are buffers, and what is refused is thrown.

import { once } from 'node:events';
import Beanstalkd from 'beanstalkd';
import fivebeans from 'fivebeans';
import Jackd from 'jackd';
import { Client as NodeBeanstalk } from 'node-beanstalk';

/** For libraries that return nothing instead. */
class Refused extends Error {}

function unless(word, value) {
  if (value === null || value === false) throw new Refused(word);
  return value;
}

class JackdClient {
  static package = 'jackd';
  // Version 2.2.2 sends buffers as JSON, asserts that a body is not empty, and sends pause-tube without a line end.
  static lacks = ['bytes', 'emptyBody', 'pauseTube'];

  constructor(address) {
    this.address = address;
    this.client = new Jackd();
  }

  static word = (error) => error.response ?? error.message;
  connect = () => this.client.connect(this.address);
  close = () => this.client.quit();
  isLost = () => !this.client.isConnected();
  put = async (body, options) => Number(await this.client.put(body.toString(), options));
  use = (tube) => this.client.use(tube);
  watch = (tube) => this.client.watch(tube);
  ignore = (tube) => this.client.ignore(tube);
  reserve = async (seconds) => this.job(
    await (seconds === undefined ? this.client.reserve() : this.client.reserveWithTimeout(seconds)),
  );
  reserveJob = async (id) => this.job(await this.client.reserveJob(id));
  peek = async (id) => this.job(await this.client.peek(id));
  peekReady = async () => this.job(await this.client.peekReady());
  peekDelayed = async () => this.job(await this.client.peekDelayed());
  peekBuried = async () => this.job(await this.client.peekBuried());
  delete = (id) => this.client.delete(id);
  release = (id, options) => this.client.release(id, options);
  bury = (id, priority) => this.client.bury(id, priority);
  touch = (id) => this.client.touch(id);
  kick = (bound) => this.client.kick(bound);
  kickJob = (id) => this.client.kickJob(id);
  stats = async () => this.fields(await this.client.stats());
  statsJob = async (id) => this.fields(await this.client.statsJob(id));
  statsTube = async (tube) => this.fields(await this.client.statsTube(tube));
  tubes = async () => this.items(await this.client.listTubes());
  using = () => this.client.listTubeUsed();
  watching = async () => this.items(await this.client.listTubesWatched());

  job({ id, payload }) {
    return { id: Number(id), body: payload };
  }

  // It leaves the YAML to its users; these are the forms that beanstalkd's has. Since 1.13 texts are quoted.
  items(text) {
    return text.split('\n').slice(1, -1).map((line) => /^- (.*)$/.exec(line)[1]);
  }

  fields(text) {
    return Object.fromEntries(text.split('\n').slice(1, -1).map((line) => {
      const [, key, value] = /^([\w-]+): "?(.*?)"?$/.exec(line);
      return [key, /^\d+$/.test(value) ? Number(value) : value];
    }));
  }
}

class FivebeansClient {
  static package = 'fivebeans';
  static lacks = ['reserveJob'];

  constructor({ host, port }) {
    this.client = new fivebeans.client(host, port);
    this.client.on('error', () => {});
    this.client.on('close', () => (this.closed = true));
  }

  /** It calls back with a word of refusal, or with what it was told. */
  call = (command, ...words) => new Promise((resolve, reject) => {
    this.client[command](...words, (refusal, ...told) => (refusal ? reject(new Refused(refusal)) : resolve(told)));
  });

  static word = (error) => error.message;

  async connect() {
    this.closed = false;
    this.client.connect();
    await once(this.client, 'connect');
  }

  async close() {
    const closed = once(this.client, 'close');
    this.client.quit();
    await closed;
  }

  isLost = () => this.closed;
  put = async (body, { priority = 0, delay = 0, ttr = 60 } = {}) => Number(
    (await this.call('put', priority, delay, ttr, body))[0],
  );
  use = (tube) => this.call('use', tube);
  watch = async (tube) => Number((await this.call('watch', tube))[0]);
  ignore = async (tube) => Number((await this.call('ignore', tube))[0]);
  reserve = async (seconds) => this.job(
    await (seconds === undefined ? this.call('reserve') : this.call('reserve_with_timeout', seconds)),
  );
  peek = async (id) => this.job(await this.call('peek', id));
  peekReady = async () => this.job(await this.call('peek_ready'));
  peekDelayed = async () => this.job(await this.call('peek_delayed'));
  peekBuried = async () => this.job(await this.call('peek_buried'));
  delete = (id) => this.call('destroy', id);
  release = (id, { priority = 0, delay = 0 } = {}) => this.call('release', id, priority, delay);
  bury = (id, priority = 0) => this.call('bury', id, priority);
  touch = (id) => this.call('touch', id);
  kick = async (bound) => Number((await this.call('kick', bound))[0]);
  kickJob = (id) => this.call('kick_job', id);
  pauseTube = (tube, seconds) => this.call('pause_tube', tube, seconds);
  stats = async () => (await this.call('stats'))[0];
  statsJob = async (id) => (await this.call('stats_job', id))[0];
  statsTube = async (tube) => (await this.call('stats_tube', tube))[0];
  tubes = async () => (await this.call('list_tubes'))[0];
  using = async () => (await this.call('list_tube_used'))[0];
  watching = async () => (await this.call('list_tubes_watched'))[0];

  job([id, body]) {
    return { id: Number(id), body };
  }
}

class NodeBeanstalkClient {
  static package = 'node-beanstalk';
  // It does not notice that a connection is gone.
  static lacks = ['isLost'];

  constructor(address) {
    this.address = address;
  }

  static word = (error) => error.code ?? error.message;

  async connect() {
    const bytes = { serialize: (body) => body, deserialize: (body) => body };
    // A large body may take longer than the second that it would wait.
    const limits = { maxPayloadSize: Infinity, dataReadTimeoutMs: 10_000 };
    this.client = new NodeBeanstalk({ ...this.address, serializer: bytes, ...limits });
    await this.client.connect();
  }

  close = () => this.client.disconnect();
  put = async (body, { priority = 0, delay = 0, ttr = 60 } = {}) => (
    (await this.client.put(body, ttr, priority, delay)).id
  );
  use = (tube) => this.client.use(tube);
  watch = (tube) => this.client.watch(tube);
  ignore = async (tube) => unless('NOT_IGNORED', await this.client.ignore(tube));
  reserve = async (seconds) => this.job(
    'TIMED_OUT',
    await (seconds === undefined ? this.client.reserve() : this.client.reserveWithTimeout(seconds)),
  );
  reserveJob = async (id) => this.job('NOT_FOUND', await this.client.reserveJob(id));
  peek = async (id) => this.job('NOT_FOUND', await this.client.peek(id));
  peekReady = async () => this.job('NOT_FOUND', await this.client.peekReady());
  peekDelayed = async () => this.job('NOT_FOUND', await this.client.peekDelayed());
  peekBuried = async () => this.job('NOT_FOUND', await this.client.peekBuried());
  delete = async (id) => unless('NOT_FOUND', await this.client.delete(id));
  release = async (id, { priority = 0, delay = 0 } = {}) => unless(
    'NOT_FOUND',
    await this.client.release(id, priority, delay),
  );
  bury = async (id, priority = 0) => unless('NOT_FOUND', await this.client.bury(id, priority));
  touch = async (id) => unless('NOT_FOUND', await this.client.touch(id));
  kick = (bound) => this.client.kick(bound);
  kickJob = async (id) => unless('NOT_FOUND', await this.client.kickJob(id));
  pauseTube = async (tube, seconds) => unless('NOT_FOUND', await this.client.pauseTube(tube, seconds));
  stats = () => this.client.stats();
  statsJob = async (id) => unless('NOT_FOUND', await this.client.statsJob(id));
  statsTube = async (tube) => unless('NOT_FOUND', await this.client.statsTube(tube));
  tubes = () => this.client.listTubes();
  using = () => this.client.listTubeUsed();
  watching = () => this.client.listTubesWatched();

  job(word, found) {
    const { id, payload } = unless(word, found);
    return { id, body: payload };
  }
}

class BeanstalkdClient {
  static package = 'beanstalkd';
  static lacks = ['kick', 'reserveJob'];

  constructor({ host, port }) {
    this.client = new Beanstalkd.default(host, port);
  }

  static word = (error) => error.message;
  connect = () => this.client.connect();
  close = () => this.client.quit();
  isLost = () => this.client.closed;
  put = (body, { priority = 0, delay = 0, ttr = 60 } = {}) => this.client.put(priority, delay, ttr, body);
  use = (tube) => this.client.use(tube);
  watch = (tube) => this.client.watch(tube);
  ignore = (tube) => this.client.ignore(tube);
  reserve = async (seconds) => this.job(
    await (seconds === undefined ? this.client.reserve() : this.client.reserveWithTimeout(seconds)),
  );
  peek = async (id) => this.job(await this.client.peek(id));
  peekReady = async () => this.job(await this.client.peekReady());
  peekDelayed = async () => this.job(await this.client.peekDelayed());
  peekBuried = async () => this.job(await this.client.peekBuried());
  delete = (id) => this.client.delete(id);
  release = (id, { priority = 0, delay = 0 } = {}) => this.client.release(id, priority, delay);
  bury = (id, priority = 0) => this.client.bury(id, priority);
  touch = (id) => this.client.touch(id);
  kickJob = (id) => this.client.kickJob(id);
  pauseTube = (tube, seconds) => this.client.pauseTube(tube, seconds);
  stats = () => this.client.stats();
  statsJob = (id) => this.client.statsJob(id);
  statsTube = (tube) => this.client.statsTube(tube);
  tubes = () => this.client.listTubes();
  using = () => this.client.listTubeUsed();
  watching = () => this.client.listTubesWatched();

  job([id, body]) {
    return { id, body };
  }
}

export const LIBRARIES = [JackdClient, FivebeansClient, NodeBeanstalkClient, BeanstalkdClient];
