// Drives a running server's beanstalkd port with jackd, fivebeans, node-beanstalk and beanstalkd, as their users get
// them.
//
// Needs: Node.js 20 or later, and `npm ci` in this folder (versions are pinned in package-lock.json).
// Usage: node beanstalkd_clients.mjs HOST PORT

import { readFileSync } from 'node:fs';
import fivebeans from 'fivebeans';
import Jackd from 'jackd';
import { Pool } from 'node-beanstalk';
import { LIBRARIES } from './beanstalkd_libraries.mjs';
import { LARGE, PATIENCE_S, Relay, Trial, largeBodies } from './beanstalkd_trial.mjs';

const [host, portText, ...more] = process.argv.slice(2);
if (portText === undefined || more.length > 0) {
  console.error('Usage: node beanstalkd_clients.mjs HOST PORT');
  process.exit(2);
}
const address = { host, port: Number(portText) };

// Longer than anything here takes, so that what comes sooner has not just timed out.
const LONG_S = 10;
const UINT32_MAX = 2 ** 32 - 1;
const words = (text) => text.trim().split(/\s+/);
const STATS_JOB = words('id tube state pri age delay ttr time-left file reserves timeouts releases buries kicks');
const STATS_TUBE = words(`name current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed
  current-jobs-buried total-jobs current-using current-watching current-waiting cmd-delete cmd-pause-tube pause
  pause-time-left`);
const STATS_NUMBERS = words(`current-jobs-urgent current-jobs-ready current-jobs-reserved current-jobs-delayed
  current-jobs-buried cmd-put cmd-peek cmd-peek-ready cmd-peek-delayed cmd-peek-buried cmd-reserve
  cmd-reserve-with-timeout cmd-delete cmd-release cmd-use cmd-watch cmd-ignore cmd-bury cmd-kick cmd-touch cmd-stats
  cmd-stats-job cmd-stats-tube cmd-list-tubes cmd-list-tube-used cmd-list-tubes-watched cmd-pause-tube job-timeouts
  total-jobs max-job-size current-tubes current-connections current-producers current-workers current-waiting
  total-connections pid uptime binlog-oldest-index binlog-current-index binlog-records-migrated binlog-records-written
  binlog-max-size`);
const STATS_OTHERS = words('version rusage-utime rusage-stime draining id hostname os platform');
const zeros = (keys, value = 0) => Object.fromEntries(keys.map((key) => [key, value]));
const numbers = (count) => Array.from({ length: count }, (_, number) => number);
const bytes = (text) => Buffer.from(text);
const ALL_BYTES = Buffer.from(numbers(256));

// --- what is asked of each -------------------------------------------------------------------------------------------

async function putTakesPriorityDelayAndTtr(trial) {
  const client = await trial.client();
  const ready = await client.put(bytes('ready'), { priority: 7, ttr: 90 });
  await trial.expectStats(client, ready, { state: 'ready', pri: 7, delay: 0, ttr: 90 });
  const late = await client.put(bytes('late'), { priority: UINT32_MAX, delay: 100, ttr: UINT32_MAX });
  await trial.expectStats(client, late, { state: 'delayed', pri: UINT32_MAX, delay: 100, ttr: UINT32_MAX });
  await trial.delete(client, ready, late);
}

async function jobsComeByPriorityThenByAgeFromAllWatchedTubes(trial) {
  const [first, second, third] = ['first', 'second', 'third'].map((name) => trial.tube(name));
  const producer = await trial.client({ use: first });
  const worker = await trial.client({ use: first, watch: [first, second] });
  const jobs = [];
  for (const [tube, priority] of [[first, 9], [second, 3], [third, 0], [second, 9], [first, 3], [first, 0]]) {
    await producer.use(tube);
    jobs.push({ tube, priority, id: await producer.put(bytes(`${tube} ${priority}`), { priority }) });
  }
  const [unwatched] = jobs.splice(2, 1);
  for (const { tube, priority, id } of jobs.toSorted((a, b) => a.priority - b.priority || a.id - b.id)) {
    trial.expectJob('in order', await worker.reserve(PATIENCE_S), id, `${tube} ${priority}`);
  }
  await trial.expectWord('no other is ready', 'TIMED_OUT', () => worker.reserve(0));
  await trial.delete(worker, unwatched.id, ...jobs.map(({ id }) => id));
}

async function reserveTimesOut(trial) {
  const client = await trial.client();
  await trial.expectWord('at once', 'TIMED_OUT', () => client.reserve(0));
  await trial.takes('with a time-out of one second', 1, async () => {
    await trial.expectWord('after a second', 'TIMED_OUT', () => client.reserve(1));
  });
}

async function aWaitingWorkerGetsTheNextJob(trial) {
  const [producer, worker] = [await trial.client(), await trial.client()];
  const reserved = worker.reserve();
  await trial.until('the worker waits', async () => (await producer.statsTube(trial.tube()))['current-waiting'] === 1);
  const id = await producer.put(bytes('at last'));
  trial.expectJob('the job', await reserved, id, 'at last');
  await worker.delete(id);
}

async function deadlineSoonIsToldWhileWaitingAndAtOnce(trial) {
  const client = await trial.client();
  const id = await client.put(bytes('short'), { ttr: 2 });
  await trial.takes('with a ttr of two seconds', 1, async () => {
    await client.reserve(PATIENCE_S);
    await trial.expectWord('while waiting', 'DEADLINE_SOON', () => client.reserve(LONG_S));
  });
  await trial.expectWord('at once', 'DEADLINE_SOON', () => client.reserve(0));
  await client.delete(id);
}

async function aDelayedJobComesWhenItsTimeHasCome(trial) {
  const client = await trial.client();
  let id;
  await trial.takes('with a delay of one second', 1, async () => {
    id = await client.put(bytes('later'), { delay: 1 });
    await trial.expectWord('it is not ready', 'TIMED_OUT', () => client.reserve(0));
    trial.expectJob('the job', await client.reserve(LONG_S), id, 'later');
  });
  await client.delete(id);
}

async function releaseTakesPriorityAndDelay(trial) {
  const client = await trial.client();
  const id = await client.put(bytes('again'), { priority: 5 });
  await client.reserve(PATIENCE_S);
  await client.release(id, { priority: 3 });
  await trial.expectStats(client, id, { state: 'ready', pri: 3, releases: 1, reserves: 1 });
  await trial.takes('with a delay of one second', 1, async () => {
    await client.reserve(PATIENCE_S);
    await client.release(id, { priority: UINT32_MAX, delay: 1 });
    await trial.expectStats(client, id, { state: 'delayed', pri: UINT32_MAX, delay: 1, releases: 2, reserves: 2 });
    trial.expectJob('the job', await client.reserve(LONG_S), id, 'again');
  });
  await client.delete(id);
}

async function buryTakesAPriorityAndKickABound(trial) {
  const client = await trial.client();
  const ids = [];
  for (const number of numbers(3)) ids.push(await client.put(bytes(`bury me ${number}`)));
  for (const [priority, id] of ids.entries()) {
    await client.reserve(PATIENCE_S);
    await client.bury(id, priority);
    await trial.expectStats(client, id, { state: 'buried', pri: priority, buries: 1 });
  }
  const delayed = await client.put(bytes('kick me'), { delay: 100 });
  trial.expect('two of three are kicked', await client.kick(2), 2);
  await trial.expectStats(client, ids[1], { state: 'ready', kicks: 1 });
  trial.expect('then the third, and no delayed one', await client.kick(10), 1);
  await trial.expectStats(client, delayed, { state: 'delayed', kicks: 0 });
  trial.expect('then the delayed one', await client.kick(10), 1);
  await trial.expectStats(client, delayed, { state: 'ready', kicks: 1 });
  trial.expect('then none', await client.kick(10), 0);
  await trial.delete(client, delayed, ...ids);
}

async function kickJobTakesBuriedAndDelayedOnes(trial) {
  const client = await trial.client();
  const buried = await client.put(bytes('buried'));
  await client.reserve(PATIENCE_S);
  await client.bury(buried);
  const delayed = await client.put(bytes('delayed'), { delay: 100 });
  for (const id of [buried, delayed]) {
    await client.kickJob(id);
    await trial.expectStats(client, id, { state: 'ready', kicks: 1 });
    await trial.expectWord('a ready one is not kicked', 'NOT_FOUND', () => client.kickJob(id));
  }
  await trial.delete(client, buried, delayed);
}

async function aJobComesBackWhenItsTtrIsOver(trial) {
  const [worker, other] = [await trial.client(), await trial.client()];
  const id = await worker.put(bytes('slow'), { ttr: 1 });
  await trial.takes('with a ttr of one second', 1, async () => {
    await worker.reserve(PATIENCE_S);
    trial.expectJob('another gets it', await timedOut(trial, worker, other, id), id, 'slow');
  });
  await trial.expectStats(other, id, { state: 'reserved', timeouts: 1, reserves: 2 });
  await trial.expectWord('the first has lost it', 'NOT_FOUND', () => worker.release(id));
  await other.delete(id);
}

async function touchPostponesTheEndOfTheTtr(trial) {
  const [worker, other] = [await trial.client(), await trial.client()];
  const id = await worker.put(bytes('slow'), { ttr: 2 });
  await worker.reserve(PATIENCE_S);
  await trial.until('half of it is over', async () => (await worker.statsJob(id))['time-left'] === 0);
  await trial.takes('with a ttr of two seconds from the touch on', 2, async () => {
    await worker.touch(id);
    trial.expectJob('another gets it', await timedOut(trial, worker, other, id), id, 'slow');
  });
  await trial.expectWord('the first has lost it', 'NOT_FOUND', () => worker.touch(id));
  await other.delete(id);
}

/** What the other gets, who waits while the worker lets its time pass. */
async function timedOut(trial, worker, other, id) {
  const reserved = other.reserve(LONG_S);
  // beanstalkd 1.12 can miss the end of a ttr if the connection that has the job says nothing.
  await trial.until('it has timed out', async () => (await worker.statsJob(id)).timeouts === 1);
  return reserved;
}

async function peekShowsTheFirstOfEachState(trial) {
  const client = await trial.client();
  for (const call of ['peekReady', 'peekDelayed', 'peekBuried']) {
    await trial.expectWord(`${call} of nothing`, 'NOT_FOUND', () => client[call]());
  }
  const buried = [await client.put(bytes('buried 0')), await client.put(bytes('buried 1'))];
  for (const id of buried) {
    await client.reserve(PATIENCE_S);
    await client.bury(id);
  }
  const delayed = [];
  for (const delay of [200, 100]) delayed.push(await client.put(bytes(`in ${delay} s`), { delay }));
  const ready = [];
  for (const priority of [2, 1]) ready.push(await client.put(bytes(`priority ${priority}`), { priority }));
  trial.expectJob('the most urgent', await client.peekReady(), ready[1], 'priority 1');
  trial.expectJob('the soonest', await client.peekDelayed(), delayed[1], 'in 100 s');
  trial.expectJob('the first buried', await client.peekBuried(), buried[0], 'buried 0');
  trial.expectJob('by id', await client.peek(delayed[0]), delayed[0], 'in 200 s');
  await trial.delete(client, ...buried, ...delayed, ...ready);
}

async function deleteTakesAnyJobThatNoOtherHasReserved(trial) {
  const [worker, other] = [await trial.client(), await trial.client()];
  const buried = await worker.put(bytes('buried'), { priority: 0 });
  const mine = await worker.put(bytes('mine'), { priority: 1 });
  const delayed = await worker.put(bytes('delayed'), { delay: 100 });
  const ready = await worker.put(bytes('ready'), { priority: 2 });
  await worker.reserve(PATIENCE_S);
  await worker.bury(buried);
  await worker.reserve(PATIENCE_S);
  await trial.delete(other, buried, delayed, ready);
  await trial.expectWord("another's", 'NOT_FOUND', () => other.delete(mine));
  await worker.delete(mine);
}

async function aPausedTubeGivesNothing(trial) {
  const client = await trial.client();
  const id = await client.put(bytes('wait'));
  await trial.takes('with a pause of one second', 1, async () => {
    await client.pauseTube(trial.tube(), 1);
    await trial.expectWord('it gives nothing', 'TIMED_OUT', () => client.reserve(0));
    trial.expectIn(await client.statsTube(trial.tube()), { pause: 1, 'pause-time-left': [0, 1], 'cmd-pause-tube': 1 });
    trial.expectJob('then it does', await client.reserve(LONG_S), id, 'wait');
  });
  trial.expectIn(await client.statsTube(trial.tube()), { pause: 0, 'pause-time-left': 0 });
  await client.delete(id);
}

async function statsTellOfAJob(trial) {
  const client = await trial.client();
  const id = await client.put(bytes('job'), { priority: 11, ttr: 60 });
  const age = [0, PATIENCE_S];
  const expected = { ...zeros(STATS_JOB), id, tube: trial.tube(), state: 'ready', pri: 11, ttr: 60, age };
  const stats = await client.statsJob(id);
  trial.expect('its keys', Object.keys(stats).sort(), STATS_JOB.toSorted());
  trial.expectIn(stats, expected);
  await client.reserve(PATIENCE_S);
  trial.expectIn(await client.statsJob(id), { ...expected, state: 'reserved', reserves: 1, 'time-left': [50, 60] });
  await client.delete(id);
}

async function statsTellOfATube(trial) {
  const client = await trial.client();
  const buried = await client.put(bytes('buried'), { priority: 0 });
  const reserved = await client.put(bytes('reserved'), { priority: 1 });
  await client.reserve(PATIENCE_S);
  await client.bury(buried, 1);
  await client.reserve(PATIENCE_S);
  const urgent = await client.put(bytes('urgent'), { priority: 1023 });
  const ready = await client.put(bytes('ready'), { priority: 1024 });
  const delayed = await client.put(bytes('delayed'), { delay: 100 });
  await client.delete(await client.put(bytes('gone')));
  const stats = await client.statsTube(trial.tube());
  trial.expect('its keys', Object.keys(stats).sort(), STATS_TUBE.toSorted());
  trial.expectIn(stats, {
    ...zeros(STATS_TUBE, 1), name: trial.tube(), 'current-jobs-ready': 2, 'total-jobs': 6, 'current-waiting': 0,
    'cmd-pause-tube': 0, pause: 0, 'pause-time-left': 0,
  });
  await trial.delete(client, buried, reserved, urgent, ready, delayed);
}

async function statsTellOfTheServer(trial) {
  const client = await trial.client();
  const before = await client.stats();
  trial.expect('keys that are missing', [...STATS_NUMBERS, ...STATS_OTHERS].filter((key) => !(key in before)), []);
  trial.expect('what is no number', STATS_NUMBERS.filter((key) => !Number.isInteger(before[key])), []);
  trial.expect('what is empty', ['version', 'id', 'hostname'].filter((key) => `${before[key] ?? ''}` === ''), []);
  trial.expect('draining', `${before.draining}`, 'false');
  trial.expect('what is no time', ['rusage-utime', 'rusage-stime'].filter((key) => !(Number(before[key]) >= 0)), []);
  const id = await client.put(bytes('counted'), { delay: 100 });
  const after = await client.stats();
  const growing = ['cmd-put', 'total-jobs', 'cmd-stats'];
  const positive = ['current-jobs-delayed', 'current-connections', 'current-producers', 'pid'];
  trial.expect('what has not grown', growing.filter((key) => after[key] <= before[key]), []);
  trial.expect('what is not positive', positive.filter((key) => after[key] < 1), []);
  await client.delete(id);
}

async function listsTellOfTubes(trial) {
  const [first, second] = [trial.tube('first'), trial.tube('second')];
  const client = await trial.client({ use: first, watch: [first] });
  trial.expect('two are watched', await client.watch(second), 2);
  trial.expect('watched twice is watched once', await client.watch(second), 2);
  const all = await client.tubes();
  trial.expect('all are there', ['default', first, second].filter((tube) => !all.includes(tube)), []);
  trial.expect('one is used', await client.using(), first);
  trial.expect('both are watched', (await client.watching()).sort(), [first, second]);
  await client.ignore(first);
  trial.expect('the other is watched', await client.watching(), [second]);
}

async function theLastWatchedTubeCannotBeIgnored(trial) {
  const client = await trial.client();
  await trial.expectWord('the last', 'NOT_IGNORED', () => client.ignore(trial.tube()));
}

async function whatIsNotThereIsNotFound(trial) {
  const client = await trial.client();
  const id = await client.put(bytes('gone'));
  await client.delete(id);
  for (const call of ['delete', 'release', 'bury', 'touch', 'kickJob', 'peek', 'reserveJob', 'statsJob']) {
    if (trial.has(call)) await trial.expectWord(call, 'NOT_FOUND', () => client[call](id));
  }
  await trial.expectWord('statsTube', 'NOT_FOUND', () => client.statsTube(trial.tube('nobody')));
  if (trial.has('pauseTube')) {
    await trial.expectWord('pauseTube', 'NOT_FOUND', () => client.pauseTube(trial.tube('nobody'), 1));
  }
}

async function aJobCanBeReservedByItsId(trial) {
  const client = await trial.client();
  const stranger = await trial.client({ use: 'default', watch: ['default'] });
  const buried = await client.put(bytes('buried'), { priority: 0 });
  const ready = await client.put(bytes('ready'), { priority: 1 });
  await client.reserve(PATIENCE_S);
  await client.bury(buried);
  const delayed = await client.put(bytes('delayed'), { delay: 100 });
  for (const [id, body] of [[ready, 'ready'], [delayed, 'delayed'], [buried, 'buried']]) {
    trial.expectJob('whatever its state and its tube', await stranger.reserveJob(id), id, body);
    await trial.expectStats(client, id, { state: 'reserved' });
    await trial.expectWord('reserved already', 'NOT_FOUND', () => client.reserveJob(id));
  }
  await trial.delete(stranger, buried, ready, delayed);
}

async function bodiesComeBackAsTheyWere(trial) {
  const client = await trial.client();
  for (const [what, body, needs] of [
    ['empty', bytes(''), 'emptyBody'],
    ['every byte', ALL_BYTES, 'bytes'],
    ['unicode', bytes('Grüße, 世界 🌱')],
    ['a line end', bytes('\r\n')],
    ['line ends', bytes('\r\none\r\n\r\ntwo\r\n')],
    ['an answer', bytes('RESERVED 1 5\r\nhello\r\nDELETED\r\n')],
    ['64 KiB less one', bytes('abcdefgh'.repeat(8192).slice(1))],
  ]) {
    if (!trial.has(needs)) continue;
    const id = await client.put(body);
    trial.expectJob(`${what}, peeked at`, await client.peekReady(), id, body);
    trial.expectJob(what, await client.reserve(PATIENCE_S), id, body);
    await client.delete(id);
  }
}

async function bodiesMayBeAsLargeAsTheLimit(trial) {
  const client = await trial.client();
  const limit = (await client.stats())['max-job-size'];
  trial.expect('that the limit is large enough', limit >= Math.max(...LARGE), true);
  for (const size of [...LARGE, limit]) {
    for (const [kind, body, needs] of largeBodies(size)) {
      if (!trial.has(needs)) continue;
      const id = await client.put(body);
      trial.expectJob(`${size} bytes, ${kind}, peeked at`, await client.peekReady(), id, body);
      trial.expectJob(`${size} bytes, ${kind}`, await client.reserve(PATIENCE_S), id, body);
      await client.delete(id);
    }
  }
}

async function aBodyOverTheLimitIsRefused(trial) {
  const client = await trial.client();
  for (const [kind, body, needs] of largeBodies((await client.stats())['max-job-size'] + 1)) {
    if (!trial.has(needs)) continue;
    await trial.expectWord(`one byte more, ${kind}`, 'JOB_TOO_BIG', () => client.put(body));
  }
  const id = await client.put(bytes('small'));
  trial.expectJob('the next', await client.reserve(PATIENCE_S), id, 'small');
  await client.delete(id);
}

async function manyJobsSentAtOnceKeepTheirOrder(trial) {
  const client = await trial.client();
  const ids = await Promise.all(numbers(300).map((number) => client.put(bytes(`job ${number}`))));
  for (const [number, id] of ids.entries()) {
    trial.expectJob('in order', await client.reserve(PATIENCE_S), id, `job ${number}`);
  }
  await Promise.all(ids.map((id) => client.delete(id)));
}

async function fiftyProducersAndFiftyWorkersAtOnce(trial) {
  const clients = await Promise.all(numbers(100).map(() => trial.client()));
  const produced = Promise.all(clients.slice(50).map(async (client, producer) => {
    for (const number of numbers(10)) await client.put(bytes(`${producer} ${number}`));
  }));
  const done = await Promise.all(clients.slice(0, 50).map(async (client) => {
    const bodies = [];
    while (bodies.length < 10) {
      const { id, body } = await client.reserve(LONG_S);
      await client.delete(id);
      bodies.push(`${body}`);
    }
    return bodies;
  }));
  await produced;
  const expected = numbers(50).flatMap((producer) => numbers(10).map((number) => `${producer} ${number}`));
  trial.expect('every job once', done.flat().sort(), expected.sort());
}

async function fiftyWaitingWorkersGetOneJobEach(trial) {
  const producer = await trial.client();
  const workers = await Promise.all(numbers(50).map(() => trial.client()));
  const reserved = Promise.all(workers.map((worker) => worker.reserve()));
  await trial.until('fifty wait', async () => (await producer.statsTube(trial.tube()))['current-waiting'] === 50);
  const ids = await Promise.all(workers.map(() => producer.put(bytes('one'))));
  const jobs = await reserved;
  trial.expect('every job once', jobs.map(({ id }) => id).sort(), ids.sort());
  await Promise.all(workers.map((worker, number) => worker.delete(jobs[number].id)));
}

async function aClosedConnectionGivesItsJobsBack(trial) {
  const [worker, other] = [await trial.client(), await trial.client()];
  const id = await worker.put(bytes('orphan'));
  await worker.reserve(PATIENCE_S);
  await trial.close(worker);
  trial.expectJob('another gets it', await other.reserve(PATIENCE_S), id, 'orphan');
  await trial.expectStats(other, id, { reserves: 2, timeouts: 0, releases: 0 });
  await other.delete(id);
}

async function aCutConnectionGivesItsJobsBack(trial) {
  const relay = new Relay(address);
  const [worker, other] = [await trial.client({ address: await relay.open() }), await trial.client()];
  const id = await worker.put(bytes('orphan'));
  await worker.reserve(PATIENCE_S);
  relay.cut();
  trial.expectJob('another gets it', await other.reserve(PATIENCE_S), id, 'orphan');
  if (trial.has('isLost')) await trial.until('the first has noticed', () => worker.isLost());
  await worker.connect();
  await trial.settle(worker, trial.tube(), [trial.tube()]);
  await trial.expectWord('it has lost the job', 'NOT_FOUND', () => worker.delete(id));
  await other.delete(id);
  const again = await worker.put(bytes('again'));
  trial.expectJob('it works on', await worker.reserve(PATIENCE_S), again, 'again');
  await worker.delete(again);
  relay.close();
}

async function otherLibrariesReadWhatItPuts(trial) {
  const producer = await trial.client();
  for (const Library of LIBRARIES) {
    const worker = await trial.client({ Library });
    const body = trial.has('bytes') ? ALL_BYTES : bytes('Grüße\r\n世界 🌱');
    const id = await producer.put(body);
    trial.expectJob(`${Library.package} does`, await worker.reserve(PATIENCE_S), id, body);
    await worker.delete(id);
  }
}

// --- what only one of them has ---------------------------------------------------------------------------------------

async function jackdSendsObjectsAsJson(trial) {
  const client = new Jackd();
  await client.connect(address);
  await client.use(trial.tube());
  await client.watch(trial.tube());
  const id = await client.put({ thing: ['Grüße', 1] }, { priority: 1 });
  const job = await client.reserveWithTimeout(PATIENCE_S);
  trial.expect('the object', [job.id, JSON.parse(job.payload)], [id, { thing: ['Grüße', 1] }]);
  await client.delete(job.id);
  await client.quit();
}

async function fivebeansReservesWithoutWaiting(trial) {
  const client = await trial.client();
  const ids = await Promise.all(numbers(100).map((number) => client.put(bytes(`job ${number}\r\n`))));
  const jobs = await Promise.all(ids.map(() => client.reserve(PATIENCE_S)));
  for (const [number, job] of jobs.entries()) trial.expectJob('in order', job, ids[number], `job ${number}\r\n`);
  await trial.delete(client, ...ids);
}

async function fivebeansWorkersDeleteBuryAndRelease(trial) {
  const client = await trial.client();
  const handled = [];
  const handler = { type: 'test', work: (payload, done) => (handled.push(payload), done(payload, 100)) };
  const options = { id: 'worker', handlers: { test: handler }, ignoreDefault: true, timeout: 1 };
  const worker = new fivebeans.worker({ ...address, ...options });
  const ids = {};
  for (const payload of ['success', 'bury', 'release']) {
    ids[payload] = await client.put(bytes(JSON.stringify({ type: 'test', payload })));
  }
  worker.start([trial.tube()]);
  await trial.until('all are handled', async () => (await client.statsJob(ids.release)).state === 'delayed');
  trial.expect('in order', handled, ['success', 'bury', 'release']);
  await trial.expectWord('the first', 'NOT_FOUND', () => client.statsJob(ids.success));
  await trial.expectStats(client, ids.bury, { state: 'buried' });
  await trial.delete(client, ids.bury, ids.release);
  await new Promise((resolve) => worker.once('close', resolve).stop());
}

async function nodeBeanstalkPoolsSendJson(trial) {
  const pool = new Pool({ capacity: 5, clientOptions: address });
  const ids = await Promise.all(numbers(20).map(async (number) => {
    const client = await pool.connect();
    await client.use(trial.tube());
    const { id, state } = await client.put({ thing: ['Grüße', number] }, 40);
    trial.expect('its state', state, 'ready');
    client.releaseClient();
    return id;
  }));
  const client = await pool.connect();
  await client.watch(trial.tube());
  for (const number of numbers(20)) {
    const { id, payload } = await client.reserveWithTimeout(PATIENCE_S);
    trial.expect('the object', payload, { thing: ['Grüße', ids.indexOf(id)] });
    trial.expect(`job ${number} is deleted`, await client.delete(id), true);
  }
  client.releaseClient();
  await pool.disconnect();
}

const BEHAVIOURS = [
  [putTakesPriorityDelayAndTtr],
  [jobsComeByPriorityThenByAgeFromAllWatchedTubes],
  [reserveTimesOut],
  [aWaitingWorkerGetsTheNextJob],
  [deadlineSoonIsToldWhileWaitingAndAtOnce],
  [aDelayedJobComesWhenItsTimeHasCome],
  [releaseTakesPriorityAndDelay],
  [buryTakesAPriorityAndKickABound, 'kick'],
  [kickJobTakesBuriedAndDelayedOnes],
  [aJobComesBackWhenItsTtrIsOver],
  [touchPostponesTheEndOfTheTtr],
  [peekShowsTheFirstOfEachState],
  [deleteTakesAnyJobThatNoOtherHasReserved],
  [aPausedTubeGivesNothing, 'pauseTube'],
  [statsTellOfAJob],
  [statsTellOfATube],
  [statsTellOfTheServer],
  [listsTellOfTubes],
  [theLastWatchedTubeCannotBeIgnored],
  [whatIsNotThereIsNotFound],
  [aJobCanBeReservedByItsId, 'reserveJob'],
  [bodiesComeBackAsTheyWere],
  [manyJobsSentAtOnceKeepTheirOrder],
  [fiftyProducersAndFiftyWorkersAtOnce],
  [fiftyWaitingWorkersGetOneJobEach],
  [aClosedConnectionGivesItsJobsBack],
  [aCutConnectionGivesItsJobsBack],
  [otherLibrariesReadWhatItPuts],
];
const OWN_BEHAVIOURS = {
  jackd: [[jackdSendsObjectsAsJson]],
  fivebeans: [[fivebeansReservesWithoutWaiting], [fivebeansWorkersDeleteBuryAndRelease]],
  'node-beanstalk': [[nodeBeanstalkPoolsSendJson]],
  beanstalkd: [],
};

// One library after the other: these keep the process busy, and beanstalkd 2.2.5 reads the beginning of an answer into a
// place that all its clients share.
const BEHAVIOURS_ALONE = [[bodiesMayBeAsLargeAsTheLimit], [aBodyOverTheLimitIsRefused]];

async function drive(Library, behaviours) {
  for (const [behaviour, needs] of behaviours) {
    const label = `${Library.package}: ${behaviour.name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)}`;
    const trial = new Trial(Library, address);
    try {
      if (trial.has(needs)) await behaviour(trial);
      await trial.end();
    } catch (error) {
      throw new Error(`${label}: ${error.message}`, { cause: error });
    }
    console.log(trial.has(needs) ? label : `${label}: it has no ${needs}`);
  }
}

async function driveAlone(Library) {
  await drive(Library, BEHAVIOURS_ALONE);
  const { dependencies } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8'));
  console.log(`${Library.package} ${dependencies[Library.package]}: all as expected`);
}

const stuck = setTimeout(() => {
  console.error('expected an end within a minute');
  process.exit(1);
}, 60_000);
// Most of the time is waiting, so all wait at the same time.
const together = LIBRARIES.map((Library) => drive(Library, [...BEHAVIOURS, ...OWN_BEHAVIOURS[Library.package]]));
const outcomes = await Promise.allSettled(together);
for (const Library of LIBRARIES) outcomes.push(...(await Promise.allSettled([driveAlone(Library)])));
const failures = outcomes.filter(({ status }) => status === 'rejected');
for (const { reason } of failures) console.error(reason.message);
clearTimeout(stuck);
process.exit(failures.length === 0 ? 0 : 1);
