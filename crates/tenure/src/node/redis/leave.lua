-- Gets out of the line, and passes the lock on if it is set aside for this waiter.
-- KEYS: lock, waiters in line, what is there while it is open   ARGV: ticket
redis.call('ZREM', KEYS[2], ARGV[1])
if owner_of(KEYS[1]) == RESERVED .. ARGV[1] and not pass_on(KEYS[1], KEYS[2], KEYS[3]) then
    redis.call('DEL', KEYS[1])
end
return 1
