#!/usr/bin/env ruby
# Drives a running server's beanstalkd port with beaneater, as its users get it.
#
# Needs: Ruby 3 and beaneater (Debian: ruby-beaneater).
# Usage: beanstalkd_beaneater.rb HOST PORT

require 'beaneater'
require 'securerandom'

abort "Usage: #{$PROGRAM_NAME} HOST PORT" unless ARGV.length == 2
ADDRESS = ARGV.join(':')
TUBE = "beaneater-#{SecureRandom.uuid}"

# How long the server may take beyond the time that is the subject.
PATIENCE_S = 5
# Longer than anything here takes, so that what comes sooner has not just timed out.
LONG_S = 10
# How early the end of a wait may be seen: clocks and whole seconds are compared.
EARLY_S = 0.1
UINT32_MAX = 2**32 - 1
# What comes in several pieces; the server's limit must not be less.
LARGE = [64 << 10, 1 << 20].freeze
STATS_JOB = %w[id tube state pri age delay ttr time_left file reserves timeouts releases buries kicks].freeze
STATS_TUBE = %w[name current_jobs_urgent current_jobs_ready current_jobs_reserved current_jobs_delayed
                current_jobs_buried total_jobs current_using current_watching current_waiting cmd_delete cmd_pause_tube
                pause pause_time_left].freeze
STATS = %w[current_jobs_urgent current_jobs_ready current_jobs_reserved current_jobs_delayed current_jobs_buried
           cmd_put cmd_peek cmd_peek_ready cmd_peek_delayed cmd_peek_buried cmd_reserve cmd_reserve_with_timeout
           cmd_delete cmd_release cmd_use cmd_watch cmd_ignore cmd_bury cmd_kick cmd_touch cmd_stats cmd_stats_job
           cmd_stats_tube cmd_list_tubes cmd_list_tube_used cmd_list_tubes_watched cmd_pause_tube job_timeouts
           total_jobs max_job_size current_tubes current_connections current_producers current_workers
           current_waiting total_connections pid version rusage_utime rusage_stime uptime binlog_oldest_index
           binlog_current_index binlog_records_migrated binlog_records_written binlog_max_size draining id hostname
           os platform].freeze

def expect(what, actual, expected)
  raise "#{what}: expected #{expected.inspect[0, 300]}, got #{actual.inspect[0, 300]}" unless expected === actual
end

def expect_error(what, error)
  result = yield
rescue error
  nil
rescue StandardError => e
  raise "#{what}: expected #{error}, got #{e.class}: #{e.message}"
else
  raise "#{what}: expected #{error}, got #{result.inspect}"
end

def expect_job(what, job, id, body)
  expect("#{what}: id", job&.id, id)
  expect(what, job.body.b, body.b)
end

def expect_stats(stats, expected)
  expected.each { |key, value| expect(key, stats[key], value) }
end

def takes(what, seconds)
  start = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  yield
  taken = Process.clock_gettime(Process::CLOCK_MONOTONIC) - start
  expect("seconds that it takes #{what}", taken, (seconds - EARLY_S)..(seconds + PATIENCE_S))
end

def wait_until(what)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE_S
  until yield
    raise "expected within #{PATIENCE_S} s: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

    sleep 0.01
  end
end

# No piece of them is like another, so that none can be lost, doubled or put elsewhere. The text is whole.
def large_bodies(size)
  text = Array.new(size / 32) { |number| "#{number}: Grüße, 世界 🌱\r\n" }.join
  { 'bytes' => Random.bytes(size), 'text' => text + 'x' * (size - text.bytesize) }
end

# Clients that watch and use the tubes of the one behaviour that runs.
def client(watch: [TUBE])
  @clients << Beaneater.new(ADDRESS)
  @clients.last.tubes.watch!(*watch)
  @clients.last
end

def put(client, body, tube: TUBE, **options)
  answer = client.tubes[tube].put(body, options)
  expect('put', answer[:status], 'INSERTED')
  answer[:id]
end

def delete(client, *ids)
  ids.each { |id| client.jobs.find(id).delete }
end

# --- what is asked of it ---------------------------------------------------------------------------------------------

def put_takes_priority_delay_and_ttr
  beanstalk = client
  ready = put(beanstalk, 'ready', pri: 7, ttr: 90)
  expect_stats(beanstalk.jobs.find(ready).stats, tube: TUBE, state: 'ready', pri: 7, delay: 0, ttr: 90)
  late = put(beanstalk, 'late', pri: UINT32_MAX, delay: 100, ttr: 0)
  expect_stats(beanstalk.jobs.find(late).stats, state: 'delayed', pri: UINT32_MAX, delay: 100, ttr: 1)
  delete(beanstalk, ready, late)
end

def jobs_come_by_priority_then_by_age_from_all_watched_tubes
  first, second, third = %w[first second third].map { |name| "#{TUBE}-#{name}" }
  worker = client(watch: [first, second])
  jobs = [[first, 9], [second, 3], [third, 0], [second, 9], [first, 3], [first, 0]].map do |tube, pri|
    [pri, put(worker, "#{tube} #{pri}", tube: tube, pri: pri), tube]
  end
  unwatched = jobs.delete_at(2)
  jobs.sort_by { |pri, id,| [pri, id.to_i] }.each do |pri, id, tube|
    expect_job('in order', worker.tubes.reserve(PATIENCE_S), id, "#{tube} #{pri}")
  end
  expect_error('no other is ready', Beaneater::TimedOutError) { worker.tubes.reserve(0) }
  delete(worker, unwatched[1], *jobs.map { |_, id,| id })
end

def reserve_times_out
  beanstalk = client
  takes('with a time-out of one second', 1) do
    expect_error('after a second', Beaneater::TimedOutError) { beanstalk.tubes.reserve(1) }
  end
end

def a_waiting_worker_gets_the_next_job
  producer, worker = client, client
  reserved = Thread.new { worker.tubes.reserve }
  wait_until('the worker waits') { producer.tubes[TUBE].stats.current_waiting == 1 }
  id = put(producer, 'at last')
  expect_job('the job', reserved.value, id, 'at last')
  delete(worker, id)
end

def deadline_soon_is_told_while_waiting_and_at_once
  beanstalk = client
  id = put(beanstalk, 'short', ttr: 2)
  takes('with a ttr of two seconds', 1) do
    beanstalk.tubes.reserve(PATIENCE_S)
    expect_error('while waiting', Beaneater::DeadlineSoonError) { beanstalk.tubes.reserve(LONG_S) }
  end
  expect_error('at once', Beaneater::DeadlineSoonError) { beanstalk.tubes.reserve(0) }
  delete(beanstalk, id)
end

def a_delayed_job_comes_when_its_time_has_come
  beanstalk = client
  id = nil
  takes('with a delay of one second', 1) do
    id = put(beanstalk, 'later', delay: 1)
    expect_error('it is not ready', Beaneater::TimedOutError) { beanstalk.tubes.reserve(0) }
    expect_job('the job', beanstalk.tubes.reserve(LONG_S), id, 'later')
  end
  delete(beanstalk, id)
end

def release_takes_priority_and_delay
  beanstalk = client
  id = put(beanstalk, 'again', pri: 5)
  job = beanstalk.tubes.reserve(PATIENCE_S)
  job.release(pri: 3, delay: 0)
  expect_stats(job.stats, state: 'ready', pri: 3, releases: 1, reserves: 1)
  takes('with a delay of one second', 1) do
    job = beanstalk.tubes.reserve(PATIENCE_S)
    job.release(pri: UINT32_MAX, delay: 1)
    expect_stats(job.stats, state: 'delayed', pri: UINT32_MAX, delay: 1, releases: 2, reserves: 2)
    expect_job('the job', beanstalk.tubes.reserve(LONG_S), id, 'again')
  end
  delete(beanstalk, id)
end

def bury_takes_a_priority_and_kick_a_bound
  beanstalk = client
  ids = Array.new(3) { |number| put(beanstalk, "bury me #{number}") }
  ids.each_index do |pri|
    job = beanstalk.tubes.reserve(PATIENCE_S)
    job.bury(pri: pri)
    expect_stats(job.stats, state: 'buried', pri: pri, buries: 1)
  end
  delayed = put(beanstalk, 'kick me', delay: 100)
  tube = beanstalk.tubes[TUBE]
  expect('two of three are kicked', tube.kick(2)[:id], '2')
  expect('then the third, and no delayed one', tube.kick(10)[:id], '1')
  expect('then the delayed one', tube.kick(10)[:id], '1')
  expect('then none', tube.kick(10)[:id], '0')
  delete(beanstalk, delayed, *ids)
end

def kick_job_takes_buried_and_delayed_ones
  beanstalk = client
  buried = put(beanstalk, 'buried')
  beanstalk.tubes.reserve(PATIENCE_S).bury
  delayed = put(beanstalk, 'delayed', delay: 100)
  [buried, delayed].each do |id|
    job = beanstalk.jobs.find(id)
    job.kick
    expect_stats(job.stats, state: 'ready', kicks: 1)
    expect_error('a ready one is not kicked', Beaneater::NotFoundError) { job.kick }
    job.delete
  end
end

def touch_postpones_the_end_of_the_ttr
  worker, other = client, client
  id = put(worker, 'slow', ttr: 2)
  job = worker.tubes.reserve(PATIENCE_S)
  wait_until('half of it is over') { job.stats.time_left.zero? }
  takes('with a ttr of two seconds from the touch on', 2) do
    job.touch
    reserved = Thread.new { other.tubes.reserve(LONG_S) }
    # beanstalkd 1.12 can miss the end of a ttr if the connection that has the job says nothing.
    wait_until('it has timed out') { job.stats.timeouts == 1 }
    expect_job('another gets it', reserved.value, id, 'slow')
  end
  expect_error('the first has lost it', Beaneater::NotFoundError) { job.touch }
  delete(other, id)
end

def peek_shows_the_first_of_each_state
  beanstalk = client
  tube = beanstalk.tubes[TUBE]
  %i[ready delayed buried].each { |state| expect("none is #{state}", tube.peek(state), nil) }
  buried = Array.new(2) { |number| put(beanstalk, "buried #{number}") }
  buried.each { beanstalk.tubes.reserve(PATIENCE_S).bury }
  delayed = [200, 100].map { |seconds| put(beanstalk, "in #{seconds} s", delay: seconds) }
  ready = [2, 1].map { |pri| put(beanstalk, "priority #{pri}", pri: pri) }
  expect_job('the most urgent', tube.peek(:ready), ready[1], 'priority 1')
  expect_job('the soonest', tube.peek(:delayed), delayed[1], 'in 100 s')
  expect_job('the first buried', tube.peek(:buried), buried[0], 'buried 0')
  expect_job('by id', beanstalk.jobs[delayed[0]], delayed[0], 'in 200 s')
  expect('by an id that is not there', beanstalk.jobs[2**40], nil)
  tube.clear
end

def a_paused_tube_gives_nothing
  beanstalk = client
  id = put(beanstalk, 'wait')
  takes('with a pause of one second', 1) do
    beanstalk.tubes[TUBE].pause(1)
    expect_error('it gives nothing', Beaneater::TimedOutError) { beanstalk.tubes.reserve(0) }
    expect_stats(beanstalk.tubes[TUBE].stats, pause: 1, pause_time_left: 0..1, cmd_pause_tube: 1)
    expect_job('then it does', beanstalk.tubes.reserve(LONG_S), id, 'wait')
  end
  delete(beanstalk, id)
end

def stats_tell_of_a_job_and_a_tube
  beanstalk = client
  id = put(beanstalk, 'job', pri: 11, ttr: 60)
  stats = beanstalk.tubes.reserve(PATIENCE_S).stats
  expect('the keys of a job', stats.keys.sort, STATS_JOB.sort)
  expect_stats(stats, STATS_JOB.to_h { |key| [key, 0] }.merge(
                        'id' => id.to_i, 'tube' => TUBE, 'state' => 'reserved', 'pri' => 11, 'ttr' => 60,
                        'age' => 0..PATIENCE_S, 'time_left' => 50..60, 'reserves' => 1))
  stats = beanstalk.tubes[TUBE].stats
  expect('the keys of a tube', stats.keys.sort, STATS_TUBE.sort)
  expect_stats(stats, STATS_TUBE.to_h { |key| [key, 0] }.merge(
                        'name' => TUBE, 'current_jobs_reserved' => 1, 'total_jobs' => 1, 'current_using' => 1,
                        'current_watching' => 1))
  delete(beanstalk, id)
end

def stats_tell_of_the_server
  beanstalk = client
  expect('keys that are missing', STATS - beanstalk.stats.keys, [])
  before = beanstalk.stats.cmd_put
  delete(beanstalk, put(beanstalk, 'counted'))
  expect('cmd_put has grown', beanstalk.stats.cmd_put, ((before + 1)..))
  expect('pid', beanstalk.stats.pid, (1..))
  expect('max_job_size', beanstalk.stats.max_job_size, (1..))
  expect('draining', beanstalk.stats.draining, false)
  expect('rusage_utime', beanstalk.stats.rusage_utime, Numeric)
  expect('the version is a text', beanstalk.stats.version, String)
end

def lists_tell_of_tubes
  first, second = "#{TUBE}-first", "#{TUBE}-second"
  beanstalk = client(watch: [first, second])
  beanstalk.tubes.use(first)
  expect('all are there', ['default', first, second] - beanstalk.tubes.all.map(&:name), [])
  expect('one is used', beanstalk.tubes.used.name, first)
  expect('both are watched', beanstalk.tubes.watched.map(&:name).sort, [first, second])
  beanstalk.tubes.ignore(first)
  expect('the other is watched', beanstalk.tubes.watched.map(&:name), [second])
  expect_error('the last cannot be ignored', Beaneater::NotIgnoredError) { beanstalk.tubes.ignore(second) }
end

def what_is_not_there_is_not_found
  beanstalk = client
  put(beanstalk, 'gone')
  job = beanstalk.tubes.reserve(PATIENCE_S)
  job.delete
  expect('it does not exist', job.exists?, false)
  %i[delete kick stats].each { |call| expect_error(call, Beaneater::NotFoundError) { job.public_send(call) } }
  expect_error('stats of a tube', Beaneater::NotFoundError) { beanstalk.tubes["#{TUBE}-nobody"].stats }
  expect_error('pause', Beaneater::NotFoundError) { beanstalk.tubes["#{TUBE}-nobody"].pause(1) }
  expect_error('a name', Beaneater::InvalidTubeName) { beanstalk.tubes.use('no name!') }
end

def bodies_come_back_as_they_were
  beanstalk = client
  { 'empty' => '', 'every byte' => (0..255).to_a.pack('C*'), 'unicode' => 'Grüße, 世界 🌱', 'a line end' => "\r\n",
    'line ends' => "\r\none\r\n\r\ntwo\r\n", '64 KiB less one' => 'x' * 65_535 }.each do |what, body|
    id = put(beanstalk, body)
    expect_job("#{what}, peeked at", beanstalk.tubes[TUBE].peek(:ready), id, body)
    expect_job(what, beanstalk.tubes.reserve(PATIENCE_S), id, body)
    delete(beanstalk, id)
  end
end

def bodies_may_be_as_large_as_the_limit
  beanstalk = client
  limit = beanstalk.stats.max_job_size
  expect('the limit', limit, (LARGE.max..))
  [*LARGE, limit].each do |size|
    large_bodies(size).each do |kind, body|
      id = put(beanstalk, body)
      expect_job("#{size} bytes, #{kind}, peeked at", beanstalk.tubes[TUBE].peek(:ready), id, body)
      expect_job("#{size} bytes, #{kind}", beanstalk.tubes.reserve(PATIENCE_S), id, body)
      delete(beanstalk, id)
    end
  end
end

def a_body_over_the_limit_is_refused
  beanstalk = client
  large_bodies(beanstalk.stats.max_job_size + 1).each do |kind, body|
    expect_error("one byte more, #{kind}", Beaneater::JobTooBigError) { put(beanstalk, body) }
  end
  delete(beanstalk, put(beanstalk, 'small'))
end

def many_jobs_and_many_clients
  clients = Array.new(50) { client }
  ids = clients.map do |one|
    Thread.new { Array.new(10) { |number| put(one, "job #{number}") } }
  end.flat_map(&:value)
  done = clients.map do |one|
    Thread.new { Array.new(10) { one.tubes.reserve(LONG_S).tap(&:delete).id } }
  end
  expect('every job once', done.flat_map(&:value).sort, ids.sort)
end

def processors_delete_bury_and_release
  beanstalk, monitor = client, client
  ids = %w[good bad retried].map { |body| put(monitor, body) }
  beanstalk.jobs.register(TUBE, retry_on: [IOError], max_retries: 1) do |job|
    beanstalk.jobs.stop! if job.body == 'retried'
    raise 'no' if job.body == 'bad'
    raise IOError if job.body == 'retried'
  end
  beanstalk.jobs.process!(release_delay: 100, reserve_timeout: PATIENCE_S)
  expect('the good one', monitor.jobs.find(ids[0]), nil)
  expect_stats(monitor.jobs.find(ids[1]).stats, state: 'buried')
  expect_stats(monitor.jobs.find(ids[2]).stats, state: 'delayed', releases: 1)
  delete(monitor, ids[1], ids[2])
end

def a_closed_connection_gives_its_jobs_back
  worker, other = client, client
  id = put(worker, 'orphan')
  worker.tubes.reserve(PATIENCE_S)
  worker.close
  job = other.tubes.reserve(PATIENCE_S)
  expect_job('another gets it', job, id, 'orphan')
  expect_stats(job.stats, reserves: 2, timeouts: 0, releases: 0)
  job.delete
end

def a_cut_connection_is_made_again
  worker, other = client, client
  id = put(worker, 'orphan')
  orphan = worker.tubes.reserve(PATIENCE_S)
  worker.connection.connection.shutdown
  job = other.tubes.reserve(PATIENCE_S)
  expect_job('another gets it', job, id, 'orphan')
  expect_error('the first has lost it', Beaneater::NotFoundError) { orphan.release(pri: 0, delay: 0) }
  job.delete
  id = put(worker, 'again')
  expect_job('it watches the same tube', worker.tubes.reserve(PATIENCE_S), id, 'again')
  delete(worker, id)
end

BEHAVIOURS = %i[
  put_takes_priority_delay_and_ttr
  jobs_come_by_priority_then_by_age_from_all_watched_tubes
  reserve_times_out
  a_waiting_worker_gets_the_next_job
  deadline_soon_is_told_while_waiting_and_at_once
  a_delayed_job_comes_when_its_time_has_come
  release_takes_priority_and_delay
  bury_takes_a_priority_and_kick_a_bound
  kick_job_takes_buried_and_delayed_ones
  touch_postpones_the_end_of_the_ttr
  peek_shows_the_first_of_each_state
  a_paused_tube_gives_nothing
  stats_tell_of_a_job_and_a_tube
  stats_tell_of_the_server
  lists_tell_of_tubes
  what_is_not_there_is_not_found
  bodies_come_back_as_they_were
  bodies_may_be_as_large_as_the_limit
  a_body_over_the_limit_is_refused
  many_jobs_and_many_clients
  processors_delete_bury_and_release
  a_closed_connection_gives_its_jobs_back
  a_cut_connection_is_made_again
].freeze

Thread.report_on_exception = false
BEHAVIOURS.each do |behaviour|
  label = "beaneater: #{behaviour.to_s.tr('_', ' ')}"
  @clients = []
  begin
    send(behaviour)
    @clients.each(&:close)
    monitor = Beaneater.new(ADDRESS)
    wait_until('nothing is left behind') { monitor.tubes.none? { |tube| tube.name.start_with?(TUBE) } }
    monitor.close
  rescue StandardError => e
    abort "#{label}: #{e.message}"
  end
  puts label
end
puts "beaneater #{Beaneater::VERSION}: all as expected"
