-- Gets out of the line, and passes the lock on if it is set aside for this waiter.
redis.call('ZREM', KEYS.line, ARGV.ticket)
if owner_of(KEYS.lock) == LIMIT.RESERVED .. ARGV.ticket and not pass_on(KEYS.lock, KEYS.line, KEYS.open) then
    redis.call('DEL', KEYS.lock)
end
return OUTCOME.DONE
