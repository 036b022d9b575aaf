# The Ruby peer of `cargo xtask interop`: the gem redlock. See ../README.md for the protocol.
require 'json'
require 'redlock'

class Driver
  def initialize(values)
    nodes = values['nodes'].split(',').map { |node| "redis://#{node}" }
    options = {}
    options[:redis_timeout] = values['timeout_ms'].to_i / 1000.0 if values['timeout_ms']
    # Tests start more clients at once than a machine has cores: without a word about it, a node
    # would seem to be gone.
    options[:redis_timeout] ||= 1.0
    @client = Redlock::Client.new(nodes, options)
    @recreate = values.fetch('recreate', 'true') == 'true'
    @held = {}
  end

  def perform(verb, name = nil, *rest)
    case verb
    when 'try' then { ok: acquire(name, rest[0].to_i, retry_count: 0) }
    when 'lock' then { ok: acquire(name, rest[0].to_i) }
    when 'wait' then { ok: wait(name, rest[0].to_i, rest[1].to_i) }
    when 'unlock' then { ok: release(name) }
    when 'extend' then { ok: extend_term(name) }
    when 'count' then count(name, rest[0].to_i, rest[1], rest[2].to_i)
    when 'turns' then turns(name, *rest.map(&:to_i))
    else raise "unknown: #{verb}"
    end
  end

  private

  def acquire(name, ttl, options = {})
    info = @client.lock(name, ttl, options)
    @held[name] = info.merge(ttl: ttl) if info
    !!info
  end

  # Calls lock again and again: it gives up after four tries.
  def wait(name, ttl, patience_ms)
    finish = now + patience_ms * 1_000_000
    loop do
      return true if acquire(name, ttl)
      return false if now > finish
    rescue Redlock::LockAcquisitionError
      raise if now > finish
    end
  end

  # It does not tell whether the lock was still there.
  def release(name)
    info = @held.delete(name) or raise 'not locked here'
    @client.unlock(info)
    true
  end

  # By default this sets a key that is missing.
  def extend_term(name)
    info = @held[name] or raise 'not locked here'
    !!@client.lock(name, info[:ttl], extend: info, extend_only_if_locked: !@recreate)
  end

  def count(name, ttl, file, times)
    times.times do
      wait(name, ttl, 60_000) or raise 'no lock within a minute'
      number = File.read(file).to_i
      File.write(file, (number + 1).to_s)
      release(name)
    end
    { ok: true, done: times }
  end

  def turns(name, ttl, hold_ms, duration_ms)
    finish = now + duration_ms * 1_000_000
    turns = 0
    while now < finish
      next unless acquire(name, ttl)

      turns += 1
      sleep(hold_ms / 1000.0)
      release(name)
    end
    { ok: true, done: turns }
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

$stdout.sync = true
driver = Driver.new(ARGV.to_h { |argument| argument.split('=', 2) })
puts JSON.generate(ready: true, version: Redlock::VERSION)
$stdin.each_line do |line|
  begun = now
  begin
    answer = driver.perform(*line.split)
  rescue StandardError => e
    answer = { ok: false, error: "#{e.class}: #{e.message}" }
  end
  puts JSON.generate(answer.merge(begun: begun, ended: now))
end
