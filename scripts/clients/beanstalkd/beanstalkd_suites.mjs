// Runs the tests that fivebeans and nodestalker bring along against a running server's beanstalkd port.
//
// They are copied, because they have the port written into them. Their tubes, the default one among them, have to be
// empty.
// Needs: Node.js 20.9 or later, and `npm ci` in this folder (versions are pinned in package-lock.json).
// Usage: node beanstalkd_suites.mjs HOST PORT

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const [host, port, ...more] = process.argv.slice(2);
if (port === undefined || more.length > 0) {
  console.error('Usage: node beanstalkd_suites.mjs HOST PORT');
  process.exit(2);
}
// It is written into both.
assert.equal(host, '127.0.0.1', 'expected the host 127.0.0.1');
const run = promisify(execFile);
const here = fileURLToPath(new URL('.', import.meta.url));
const require = createRequire(import.meta.url);
const { dependencies } = JSON.parse(readFileSync(join(here, 'package.json'), 'utf8'));

/** Compares an error's number with its name, which Node.js no longer gives there. */
const FIVEBEANS_BROKEN = 'emits the error event on failure';
const FIVEBEANS_TESTS = 53;

/** Made for the server that nodestalker's tests bring along: they want certain ids, or jobs that nobody has put. */
const NODESTALKER_MOCK_ONLY = ['put_in_forloop', 'reserve_buffer', 'reserve_jobs_multichunk',
  'reserve_jobs_multichunk_timeout', 'reserve_with_timeout', 'utf8_reserve'];

function change(folder, file, from, to) {
  const text = readFileSync(join(folder, file), 'utf8');
  assert.ok(text.includes(from), `expected ${from} in ${file}`);
  writeFileSync(join(folder, file), text.replace(from, to));
}

function prepareFivebeans(folder) {
  for (const file of ['lib/client.js', 'test/test-client.js', 'test/test-worker.js', 'test/fixtures/runner.yml']) {
    change(folder, file, '11300', port);
  }
  // So that the client's tests can run beside the others.
  change(folder, 'test/test-client.js', "'testtube'", "'testtube-of-the-client'");
}

async function fivebeans(folder, ...files) {
  const mocha = join(here, 'node_modules/mocha/bin/mocha.js');
  const options = ['--timeout', '8000', '--exit', '--reporter', 'json', '--fgrep', FIVEBEANS_BROKEN, '--invert'];
  const { stdout } = await finished(run(process.execPath, [mocha, ...options, ...files], { cwd: folder }));
  // Its tests write to the standard output as well.
  const { stats, failures } = JSON.parse(stdout.slice(stdout.search(/^\{\s*"stats"/m)));
  const failed = failures.map(({ fullTitle, err }) => `${fullTitle}: ${err.message}`);
  assert.equal(failed.length, 0, `fivebeans: expected no failure, got ${failed.join('; ')}`);
  return stats.passes;
}

async function nodestalker(folder) {
  const tests = readdirSync(join(folder, 'tests')).filter((file) => file.startsWith('test_'))
    .filter((file) => !NODESTALKER_MOCK_ONLY.includes(file.slice('test_'.length, -'.js'.length)));
  for (const file of tests) {
    const env = { ...process.env, BEANSTALKD: '1', BEANSTALK_PORT: port };
    const running = run(process.execPath, [join(folder, 'tests', file)], { env, timeout: 10_000 });
    const { code, stdout, stderr } = await finished(running);
    assert.equal(code, 0, `nodestalker: ${file}: expected the exit code 0, got ${code}: ${stdout}${stderr}`);
    await emptyDefaultTube();
  }
  console.log(`nodestalker ${dependencies.nodestalker}: ${tests.length} of its own tests passed`);
}

/** Some of nodestalker's tests leave their jobs there. */
async function emptyDefaultTube() {
  const { client: Client } = require('fivebeans');
  const client = new Client(host, port);
  client.connect();
  await once(client, 'connect');
  const call = (command, ...words) => new Promise((resolve) => {
    client[command](...words, (refusal, id) => resolve(!refusal && id));
  });
  for (let id; (id = await call('peek_ready')); ) await call('destroy', id);
  client.end();
}

/** Also with what a process told that failed. */
function finished(running) {
  return running.then(
    (told) => ({ ...told, code: 0 }),
    ({ code, signal, stdout, stderr }) => ({ stdout, stderr, code: code ?? signal }),
  );
}

// Below this folder, so that its packages are found.
const work = mkdtempSync(join(here, 'suites-'));
try {
  for (const name of ['fivebeans', 'nodestalker']) {
    cpSync(join(here, 'node_modules', name), join(work, name), { recursive: true });
  }
  const folder = join(work, 'fivebeans');
  prepareFivebeans(folder);
  // fivebeans' workers also take what nodestalker's tests put into the default tube.
  const workers = nodestalker(join(work, 'nodestalker'))
    .then(() => fivebeans(folder, 'test/test-runner.js', 'test/test-worker.js'));
  const passed = await Promise.all([fivebeans(folder, 'test/test-client.js'), workers]);
  assert.equal(passed[0] + passed[1], FIVEBEANS_TESTS, 'fivebeans: expected that all tests run');
  console.log(`fivebeans ${dependencies.fivebeans}: ${FIVEBEANS_TESTS} of its own tests passed`);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(work, { recursive: true });
}
