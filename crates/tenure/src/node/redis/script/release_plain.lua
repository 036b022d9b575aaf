-- Nearly every lock that is released is its owner's, with nobody in line. It ends here, before the
-- functions below: the server makes them for each call, which costs as much as a command.
if not ARGV[2] and redis.pcall('GET', KEYS.lock) == ARGV.owner and redis.call('EXISTS', KEYS.line) == 0 then
    if KEYS.label then
        redis.call('DEL', KEYS.lock, KEYS.label)
    else
        redis.call('DEL', KEYS.lock)
    end
    return OUTCOME.DONE
end

