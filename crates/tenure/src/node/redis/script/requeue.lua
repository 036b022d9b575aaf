-- Deletes the lock if it is the owner's, as the acquire set it, and gets in line again. Nobody is woken.
if owner_of(KEYS.lock) ~= ARGV.owner then
    return OUTCOME.NOT_HELD
end
redis.call('DEL', KEYS.lock)
line_up(KEYS.line, KEYS.fence, ARGV.ticket)
return OUTCOME.DONE
