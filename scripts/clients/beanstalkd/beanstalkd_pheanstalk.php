<?php
// Drives a running server's beanstalkd port with pheanstalk, as its users get it.
//
// Needs: PHP 7.4 or later and pheanstalk 4 (Debian: php-pda-pheanstalk).
// Usage: php beanstalkd_pheanstalk.php HOST PORT

declare(strict_types=1);

require 'Pheanstalk/autoload.php';

use Pheanstalk\Contract\PheanstalkInterface;
use Pheanstalk\Exception\DeadlineSoonException;
use Pheanstalk\Exception\JobNotFoundException;
use Pheanstalk\Exception\JobTooBigException;
use Pheanstalk\Exception\ServerException;
use Pheanstalk\Job;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

if ($argc !== 3) {
    fwrite(STDERR, "Usage: php {$argv[0]} HOST PORT\n");
    exit(2);
}
define('HOST', $argv[1]);
define('PORT', (int) $argv[2]);
define('TUBE', 'pheanstalk-' . bin2hex(random_bytes(16)));

// How long the server may take beyond the time that is the subject.
const PATIENCE_S = 5;
// Longer than anything here takes, so that what comes sooner has not just timed out.
const LONG_S = 10;
// How early the end of a wait may be seen: clocks and whole seconds are compared.
const EARLY_S = 0.1;
const UINT32_MAX = 4294967295;
// What comes in several pieces; the server's limit must not be less.
const LARGE = [64 << 10, 1 << 20];
const STATS_JOB = [
    'id', 'tube', 'state', 'pri', 'age', 'delay', 'ttr', 'time-left', 'file', 'reserves', 'timeouts', 'releases',
    'buries', 'kicks',
];
const STATS_TUBE = [
    'name', 'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved', 'current-jobs-delayed',
    'current-jobs-buried', 'total-jobs', 'current-using', 'current-watching', 'current-waiting', 'cmd-delete',
    'cmd-pause-tube', 'pause', 'pause-time-left',
];
const STATS = [
    'current-jobs-urgent', 'current-jobs-ready', 'current-jobs-reserved', 'current-jobs-delayed',
    'current-jobs-buried', 'cmd-put', 'cmd-peek', 'cmd-peek-ready', 'cmd-peek-delayed', 'cmd-peek-buried',
    'cmd-reserve', 'cmd-reserve-with-timeout', 'cmd-delete', 'cmd-release', 'cmd-use', 'cmd-watch', 'cmd-ignore',
    'cmd-bury', 'cmd-kick', 'cmd-touch', 'cmd-stats', 'cmd-stats-job', 'cmd-stats-tube', 'cmd-list-tubes',
    'cmd-list-tube-used', 'cmd-list-tubes-watched', 'cmd-pause-tube', 'job-timeouts', 'total-jobs', 'max-job-size',
    'current-tubes', 'current-connections', 'current-producers', 'current-workers', 'current-waiting',
    'total-connections', 'pid', 'version', 'rusage-utime', 'rusage-stime', 'uptime', 'binlog-oldest-index',
    'binlog-current-index', 'binlog-records-migrated', 'binlog-records-written', 'binlog-max-size', 'draining',
    'id', 'hostname', 'os', 'platform',
];

/** No piece of them is like another, so that none can be lost, doubled or put elsewhere. The text is whole. */
function largeBodies(int $size): array
{
    $lines = array_map(fn (int $number) => "$number: Grüße, 世界 🌱\r\n", range(1, intdiv($size, 32)));
    return ['bytes' => random_bytes($size), 'text' => str_pad(implode($lines), $size, 'x')];
}

function client(): PheanstalkInterface
{
    return Pheanstalk::create(HOST, PORT)->useTube(TUBE)->watchOnly(TUBE);
}

function expect(string $what, $actual, $expected): void
{
    if ($actual !== $expected) {
        throw new RuntimeException("$what: expected " . brief($expected) . ', got ' . brief($actual));
    }
}

function expectJob(string $what, ?Job $job, Job $expected): void
{
    expect("$what: id", $job ? $job->getId() : null, $expected->getId());
    expect($what, $job->getData(), $expected->getData());
}

/**
 * Every value that the library reads is a text; pairs are the least and the most that may be. The library keeps the
 * quotes that beanstalkd has around texts since 1.13.
 */
function expectStats(ArrayObject $stats, array $expected): void
{
    foreach ($expected as $key => $value) {
        if (is_array($value)) {
            [$least, $most] = $value;
            expect("$key is between $least and $most", $stats[$key] >= $least && $stats[$key] <= $most, true);
        } else {
            expect($key, preg_replace('/^"(.*)"$/', '$1', $stats[$key]), (string) $value);
        }
    }
}

function expectException(string $what, string $class, Closure $call): void
{
    try {
        $result = $call();
    } catch (Throwable $thrown) {
        expect($what, get_class($thrown), $class);
        return;
    }
    throw new RuntimeException("$what: expected $class, got " . brief($result));
}

function takes(string $what, float $seconds, Closure $work): void
{
    $start = microtime(true);
    $work();
    $taken = microtime(true) - $start;
    if ($taken < $seconds - EARLY_S || $taken > $seconds + PATIENCE_S) {
        throw new RuntimeException(sprintf('%s: expected %.1f s, took %.2f s', $what, $seconds, $taken));
    }
}

function waitUntil(string $what, Closure $holds): void
{
    $deadline = microtime(true) + PATIENCE_S;
    while (!$holds()) {
        if (microtime(true) > $deadline) {
            throw new RuntimeException('expected within ' . PATIENCE_S . " s: $what");
        }
        usleep(10000);
    }
}

function brief($value): string
{
    return substr(json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE | JSON_PARTIAL_OUTPUT_ON_ERROR), 0, 300);
}

// --- what is asked of it ---------------------------------------------------------------------------------------------

function putTakesPriorityDelayAndTtr(): void
{
    $client = client();
    $ready = $client->put('ready', 7, 0, 90);
    expectStats($client->statsJob($ready), ['tube' => TUBE, 'state' => 'ready', 'pri' => 7, 'delay' => 0, 'ttr' => 90]);
    $late = $client->put('late', UINT32_MAX, 100, 0);
    expectStats($client->statsJob($late), ['state' => 'delayed', 'pri' => UINT32_MAX, 'delay' => 100, 'ttr' => 1]);
    $client->delete($ready);
    $client->delete($late);
}

function jobsComeByPriorityThenByAgeFromAllWatchedTubes(): void
{
    $client = client();
    $client->watch(TUBE . '-more');
    $jobs = [];
    [$more, $other] = [TUBE . '-more', TUBE . '-other'];
    foreach ([[TUBE, 9], [$more, 3], [$other, 0], [$more, 9], [TUBE, 3], [TUBE, 0]] as [$tube, $priority]) {
        $jobs[] = $client->useTube($tube)->put("$tube $priority", $priority);
    }
    foreach ([5, 1, 4, 0, 3] as $number) {
        expectJob('in order', $client->reserveWithTimeout(PATIENCE_S), $jobs[$number]);
    }
    expect('no other is ready', $client->reserveWithTimeout(0), null);
    array_map([$client, 'delete'], $jobs);
}

function reserveTimesOut(): void
{
    takes('with a time-out of one second', 1, function () {
        expect('after a second', client()->reserveWithTimeout(1), null);
    });
}

function deadlineSoonIsToldWhileWaitingAndAtOnce(): void
{
    $client = client();
    $job = $client->put('short', 0, 0, 2);
    takes('with a ttr of two seconds', 1, function () use ($client) {
        $client->reserve();
        expectException('while waiting', DeadlineSoonException::class, fn () => $client->reserve());
    });
    expectException('at once', DeadlineSoonException::class, fn () => $client->reserveWithTimeout(0));
    $client->delete($job);
}

function aDelayedJobComesWhenItsTimeHasCome(): void
{
    $client = client();
    takes('with a delay of one second', 1, function () use ($client) {
        $job = $client->put('later', 0, 1);
        expect('it is not ready', $client->reserveWithTimeout(0), null);
        expectJob('the job', $client->reserveWithTimeout(LONG_S), $job);
        $client->delete($job);
    });
}

function releaseTakesPriorityAndDelay(): void
{
    $client = client();
    $job = $client->put('again', 5);
    $client->release($client->reserve(), 3, 0);
    expectStats($client->statsJob($job), ['state' => 'ready', 'pri' => 3, 'releases' => 1, 'reserves' => 1]);
    takes('with a delay of one second', 1, function () use ($client, $job) {
        $client->release($client->reserve(), UINT32_MAX, 1);
        expectStats($client->statsJob($job), ['state' => 'delayed', 'pri' => UINT32_MAX, 'delay' => 1, 'releases' => 2]);
        expectJob('the job', $client->reserveWithTimeout(LONG_S), $job);
    });
    $client->delete($job);
}

function buryTakesAPriorityAndKickABound(): void
{
    $client = client();
    $jobs = [];
    foreach (range(0, 2) as $number) {
        $jobs[] = $client->put("bury me $number");
    }
    foreach ($jobs as $priority => $job) {
        $client->bury($client->reserve(), $priority);
        expectStats($client->statsJob($job), ['state' => 'buried', 'pri' => $priority, 'buries' => 1]);
    }
    $delayed = $client->put('kick me', 0, 100);
    expect('two of three are kicked', $client->kick(2), 2);
    expect('then the third, and no delayed one', $client->kick(10), 1);
    expect('then the delayed one', $client->kick(10), 1);
    expect('then none', $client->kick(10), 0);
    array_map([$client, 'delete'], [$delayed, ...$jobs]);
}

function kickJobTakesBuriedAndDelayedOnes(): void
{
    $client = client();
    $buried = $client->put('buried');
    $client->bury($client->reserve());
    foreach ([$buried, $client->put('delayed', 0, 100)] as $job) {
        $client->kickJob($job);
        expectStats($client->statsJob($job), ['state' => 'ready', 'kicks' => 1]);
        expectException('a ready one is not kicked', JobNotFoundException::class, fn () => $client->kickJob($job));
        $client->delete($job);
    }
}

function touchPostponesTheEndOfTheTtr(): void
{
    [$worker, $other] = [client(), client()];
    $job = $worker->put('slow', 0, 0, 2);
    $worker->reserve();
    waitUntil('half of it is over', fn () => $worker->statsJob($job)['time-left'] === '0');
    takes('with a ttr of two seconds from the touch on', 2, function () use ($worker, $other, $job) {
        $worker->touch($job);
        waitUntil('it has timed out', fn () => $worker->statsJob($job)['timeouts'] === '1');
        expectJob('another gets it', $other->reserveWithTimeout(PATIENCE_S), $job);
    });
    expectException('the first has lost it', JobNotFoundException::class, fn () => $worker->touch($job));
    $other->delete($job);
}

function peekShowsTheFirstOfEachState(): void
{
    $client = client();
    foreach (['peekReady', 'peekDelayed', 'peekBuried'] as $call) {
        expect("$call of nothing", $client->$call(), null);
    }
    $buried = [$client->put('buried 0'), $client->put('buried 1')];
    foreach ($buried as $_) {
        $client->bury($client->reserve());
    }
    $delayed = [$client->put('in 200 s', 0, 200), $client->put('in 100 s', 0, 100)];
    $ready = [$client->put('less urgent', 2), $client->put('urgent', 1)];
    expectJob('the most urgent', $client->peekReady(), $ready[1]);
    expectJob('the soonest', $client->peekDelayed(), $delayed[1]);
    expectJob('the first buried', $client->peekBuried(), $buried[0]);
    expectJob('by id', $client->peek(new JobId($delayed[0]->getId())), $delayed[0]);
    array_map([$client, 'delete'], array_merge($buried, $delayed, $ready));
}

function aPausedTubeGivesNothing(): void
{
    $client = client();
    $job = $client->put('wait');
    takes('with a pause of one second', 1, function () use ($client, $job) {
        $client->pauseTube(TUBE, 1);
        expect('it gives nothing', $client->reserveWithTimeout(0), null);
        expectStats($client->statsTube(TUBE), ['pause' => 1, 'pause-time-left' => [0, 1], 'cmd-pause-tube' => 1]);
        expectJob('then it does', $client->reserveWithTimeout(LONG_S), $job);
    });
    $client->release($job);
    $client->pauseTube(TUBE, 100);
    $client->resumeTube(TUBE);
    expectJob('it is resumed', $client->reserveWithTimeout(0), $job);
    $client->delete($job);
}

function statsTellOfAJobAndATube(): void
{
    $client = client();
    $job = $client->put('job', 11, 0, 60);
    $client->reserve();
    $stats = $client->statsJob($job);
    expect('the keys of a job', array_diff(STATS_JOB, array_keys($stats->getArrayCopy())), []);
    expect('how many', count($stats), count(STATS_JOB));
    expectStats($stats, ['id' => $job->getId(), 'tube' => TUBE, 'state' => 'reserved', 'pri' => 11, 'ttr' => 60,
        'age' => [0, PATIENCE_S], 'time-left' => [50, 60], 'reserves' => 1] + array_fill_keys(STATS_JOB, 0));
    expect('as a property', $stats->time_left, $stats['time-left']);
    $stats = $client->statsTube(TUBE);
    expect('the keys of a tube', array_diff(STATS_TUBE, array_keys($stats->getArrayCopy())), []);
    expect('how many', count($stats), count(STATS_TUBE));
    expectStats($stats, ['name' => TUBE, 'current-jobs-reserved' => 1, 'total-jobs' => 1, 'current-using' => 1,
        'current-watching' => 1] + array_fill_keys(STATS_TUBE, 0));
    $client->delete($job);
}

function statsTellOfTheServer(): void
{
    $client = client();
    $before = $client->stats();
    expect('keys that are missing', array_diff(STATS, array_keys($before->getArrayCopy())), []);
    $client->delete($client->put('counted'));
    $after = $client->stats();
    expect('cmd-put has grown', $after['cmd-put'] > $before['cmd-put'], true);
    expect('total-jobs has grown', $after['total-jobs'] > $before['total-jobs'], true);
    expect('there is a version', preg_match('/\d+\.\d+/', $after['version']), 1);
    expect('draining', $after['draining'], 'false');
}

function listsTellOfTubes(): void
{
    $client = client()->watch(TUBE . '-more');
    expect('all are there', array_diff(['default', TUBE, TUBE . '-more'], $client->listTubes()), []);
    expect('one is used', $client->listTubeUsed(true), TUBE);
    $watched = $client->listTubesWatched(true);
    sort($watched);
    expect('both are watched', $watched, [TUBE, TUBE . '-more']);
    $client->ignore(TUBE . '-more');
    expect('one is watched', $client->listTubesWatched(true), [TUBE]);
    expectException('the last cannot be ignored', ServerException::class, fn () => $client->ignore(TUBE));
}

function whatIsNotThereIsNotFound(): void
{
    $client = client();
    $job = $client->put('gone');
    $client->delete($job);
    foreach (['delete', 'release', 'bury', 'touch', 'kickJob', 'peek'] as $call) {
        expectException($call, JobNotFoundException::class, fn () => $client->$call($job));
    }
    expectException('statsJob', ServerException::class, fn () => $client->statsJob($job));
    expectException('statsTube', ServerException::class, fn () => $client->statsTube(TUBE . '-nobody'));
    expectException('pauseTube', ServerException::class, fn () => $client->pauseTube(TUBE . '-nobody', 1));
}

function bodiesComeBackAsTheyWere(): void
{
    $client = client();
    $bodies = ['empty' => '', 'every byte' => implode(array_map('chr', range(0, 255))), 'unicode' => 'Grüße, 世界 🌱',
        'a line end' => "\r\n", 'line ends' => "\r\none\r\n\r\ntwo\r\n", '64 KiB less one' => str_repeat('x', 65535)];
    foreach ($bodies as $what => $body) {
        $job = $client->put($body);
        expectJob("$what, peeked at", $client->peekReady(), $job);
        expectJob($what, $client->reserve(), $job);
        $client->delete($job);
    }
}

function bodiesMayBeAsLargeAsTheLimit(): void
{
    $client = client();
    $limit = (int) $client->stats()['max-job-size'];
    expect('that the limit is large enough', $limit >= max(LARGE), true);
    foreach ([...LARGE, $limit] as $size) {
        foreach (largeBodies($size) as $kind => $body) {
            $job = $client->put($body);
            expectJob("$size bytes, $kind, peeked at", $client->peekReady(), $job);
            expectJob("$size bytes, $kind", $client->reserve(), $job);
            $client->delete($job);
        }
    }
}

function aBodyOverTheLimitIsRefused(): void
{
    $client = client();
    foreach (largeBodies((int) $client->stats()['max-job-size'] + 1) as $kind => $body) {
        expectException("one byte more, $kind", JobTooBigException::class, fn () => $client->put($body));
    }
    $client->delete($client->put('small'));
}

function manyJobsAndManyClients(): void
{
    $clients = array_map(fn () => client(), range(1, 50));
    $jobs = [];
    foreach (range(0, 299) as $number) {
        $jobs[] = $clients[$number % 50]->put("job $number");
    }
    foreach ($jobs as $number => $job) {
        $worker = $clients[$number % 50];
        expectJob('in order', $worker->reserveWithTimeout(PATIENCE_S), $job);
        $worker->delete($job);
    }
}

function tubesCanBeUsedAndWatchedForAWhile(): void
{
    $client = client();
    $job = $client->withUsedTube(TUBE . '-more', fn (Pheanstalk $other) => $other->put('elsewhere'));
    expect('it is not here', $client->reserveWithTimeout(0), null);
    $found = $client->withWatchedTube(TUBE . '-more', fn (Pheanstalk $other) => $other->reserve());
    expectJob('it is there', $found, $job);
    $client->delete($job);
}

function aCutConnectionIsMadeAgain(): void
{
    $listener = stream_socket_server('tcp://127.0.0.1:0');
    $line = relay($listener);
    $port = (int) substr(strrchr(stream_socket_get_name($listener, false), ':'), 1);
    $worker = Pheanstalk::create('127.0.0.1', $port)->useTube(TUBE)->watch(TUBE)->ignore('default');
    $other = client();
    $job = $worker->put('orphan');
    $worker->reserve();
    cut($line);
    expectJob('another gets it', $other->reserveWithTimeout(PATIENCE_S), $job);
    expectStats($other->statsJob($job), ['reserves' => 2, 'timeouts' => 0, 'releases' => 0]);
    $line = relay($listener);
    expectException('the first has lost it', JobNotFoundException::class, fn () => $worker->release($job));
    $other->delete($job);
    $again = $worker->put('again');
    expectJob('it watches the same tube', $worker->reserve(), $again);
    $worker->delete($again);
    cut($line);
}

/** A process that passes one connection on to the server, until it is cut. */
function relay($listener): int
{
    $pid = pcntl_fork();
    if ($pid !== 0) {
        return $pid;
    }
    $near = stream_socket_accept($listener, LONG_S);
    $far = stream_socket_client('tcp://' . HOST . ':' . PORT);
    while (true) {
        [$ready, $none] = [[$near, $far], null];
        stream_select($ready, $none, $none, null);
        foreach ($ready as $end) {
            $data = fread($end, 65536);
            // An ordinary exit would also end what this process has in common with its parent.
            $data !== '' || posix_kill(posix_getpid(), SIGKILL);
            fwrite($end === $near ? $far : $near, $data);
        }
    }
}

function cut(int $pid): void
{
    posix_kill($pid, SIGKILL);
    pcntl_waitpid($pid, $status);
}

const BEHAVIOURS = [
    'putTakesPriorityDelayAndTtr',
    'jobsComeByPriorityThenByAgeFromAllWatchedTubes',
    'reserveTimesOut',
    'deadlineSoonIsToldWhileWaitingAndAtOnce',
    'aDelayedJobComesWhenItsTimeHasCome',
    'releaseTakesPriorityAndDelay',
    'buryTakesAPriorityAndKickABound',
    'kickJobTakesBuriedAndDelayedOnes',
    'touchPostponesTheEndOfTheTtr',
    'peekShowsTheFirstOfEachState',
    'aPausedTubeGivesNothing',
    'statsTellOfAJobAndATube',
    'statsTellOfTheServer',
    'listsTellOfTubes',
    'whatIsNotThereIsNotFound',
    'bodiesComeBackAsTheyWere',
    'bodiesMayBeAsLargeAsTheLimit',
    'aBodyOverTheLimitIsRefused',
    'manyJobsAndManyClients',
    'tubesCanBeUsedAndWatchedForAWhile',
    'aCutConnectionIsMadeAgain',
];

foreach (BEHAVIOURS as $behaviour) {
    $label = 'pheanstalk: ' . strtolower(preg_replace('/[A-Z]/', ' $0', $behaviour));
    try {
        $behaviour();
        gc_collect_cycles();
        $mine = fn (string $tube) => strpos($tube, TUBE) === 0;
        $monitor = Pheanstalk::create(HOST, PORT);
        waitUntil('nothing is left behind', fn () => !array_filter($monitor->listTubes(), $mine));
    } catch (Throwable $thrown) {
        fwrite(STDERR, "$label: {$thrown->getMessage()}\n");
        exit(1);
    }
    echo "$label\n";
}
echo "pheanstalk: all as expected\n";
