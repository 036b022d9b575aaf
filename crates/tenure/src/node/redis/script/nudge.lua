-- If the lock is free and somebody is in line, sets it aside for the first waiter that listens.
if redis.call('EXISTS', KEYS.lock) == 0 then
    pass_on(KEYS.lock, KEYS.line, KEYS.open)
end
return OUTCOME.DONE
