-- Tells who has which locks under a prefix, a page at a time. Keys that are no locks are passed
-- over.
-- What is kept beside the locks is not looked at: three more calls for each of them, while others
-- wait.
local now = redis.call('TIME')
local told = {now[1] * 1000000 + now[2]}
local page = redis.call('SCAN', ARGV.cursor, 'MATCH', ARGV.pattern, 'COUNT', 100)
told[2] = page[1]
for _, key in ipairs(page[2]) do
    -- Of another client's value, which may be long, the beginning is enough. What we keep beside
    -- the locks is none.
    local owner, count = name_of(redis.pcall('GETRANGE', key, 0, 127)), -1
    if type(owner) == 'table' then
        -- A hash that has an end and counts is a reentrant lock, ours or Redisson's.
        local field = redis.pcall('HSCAN', key, 0, 'COUNT', 1)[2] or {}
        owner, count = redis.call('PTTL', key) > 0 and tonumber(field[2]) and field[1] or '', 0
    end
    if owner ~= '' and string.sub(key, 1, 7) ~= 'tenure~' then
        told[#told + 1] = key
        told[#told + 1] = owner
        told[#told + 1] = redis.call('PTTL', key)
        told[#told + 1] = count
    end
end
return told
