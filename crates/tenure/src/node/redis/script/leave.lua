-- Gets out of the line, and passes the lock on if it is set aside for this waiter.
redis.call('ZREM', KEYS.line, ARGV.ticket)
redis.pcall('HDEL', 'tenure~waiting:{' .. KEYS.lock .. '}', ARGV.ticket)
if string.byte(ARGV.ticket, -1) == 114 then
    redis.call('ZREM', 'tenure~readers:{' .. KEYS.lock .. '}', ARGV.ticket)
end
local aside = LIMIT.RESERVED .. ARGV.ticket
local owner = owner_of(KEYS.lock)
-- A key of another kind: set aside for an owner, if it is a hash.
if (owner == aside or owner == true and redis.pcall('HEXISTS', KEYS.lock, aside) == 1)
    and not pass_on(KEYS.lock, KEYS.line, KEYS.open, true) then
    redis.call('DEL', KEYS.lock)
end
return OUTCOME.DONE
