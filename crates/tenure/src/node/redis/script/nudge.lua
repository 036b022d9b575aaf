-- If the lock is free and somebody is in line, sets it aside for the first waiter that listens. If
-- it is shared and nobody in line wants it alone, lets the others in: somebody who had it alone may
-- share it since.
local owner = redis.pcall('GET', KEYS.lock)
local readers = 'tenure~readers:{' .. KEYS.lock .. '}'
if not owner then
    pass_on(KEYS.lock, KEYS.line, KEYS.open, false)
elseif owner == LIMIT.SHARED and redis.call('ZCARD', KEYS.line) <= redis.call('ZCARD', readers) then
    admit(KEYS.lock, KEYS.line, readers, false)
end
return OUTCOME.DONE
