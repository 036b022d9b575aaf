-- If the lock is the owner's, sets it aside for the first waiter that listens, whose ticket it tells, or
-- deletes it. The label is a key of this call only if there is one.
if name_of(owner_of(KEYS.lock)) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
-- Ahead of those who came later: where nobody is before us, it comes back to us. It is deleted first: a
-- server whose memory is full lets nobody get in line, and that must not keep the lock.
if GIVEN.ticket then
    redis.call('DEL', KEYS.lock)
    line_up(KEYS.line, KEYS.fence, ARGV.ticket)
end
local ticket = pass_on(KEYS.lock, KEYS.line, KEYS.open)
if not ticket then
    redis.call('DEL', KEYS.lock)
end
if KEYS.label then
    redis.call('DEL', KEYS.label)
end
return ticket or OUTCOME.DONE
