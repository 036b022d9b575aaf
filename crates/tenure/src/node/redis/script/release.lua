-- Ends a lock if it is the owner's. Next is the first waiter that listens, whose ticket it tells;
-- or, if it opens and somebody is in line, those outside for a moment. The label is a key of this
-- call only if there is one.
if name_of(owner_of(KEYS.lock)) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
local opens, ticket = GIVEN.opens, nil
if not opens then
    -- Ahead of those who came later: where nobody is before us, it comes back to us. It is deleted
    -- first: a server whose memory is full lets nobody get in line, and that must not keep the
    -- lock.
    if GIVEN.ticket then
        redis.call('DEL', KEYS.lock)
        line_up(KEYS.line, KEYS.fence, ARGV.ticket)
    end
    ticket = pass_on(KEYS.lock, KEYS.line, KEYS.open)
end
if not ticket then
    redis.call('DEL', KEYS.lock)
end
if KEYS.label then
    redis.call('DEL', KEYS.label)
end
if opens and redis.call('ZCARD', KEYS.line) > 0 then
    redis.call('SET', KEYS.open, 1, 'PX', LIMIT.OPENING)
    return OUTCOME.OPENED
end
return ticket or OUTCOME.DONE
