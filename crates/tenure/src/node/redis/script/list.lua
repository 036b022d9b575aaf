-- Tells who has which locks under a prefix, a page at a time. Keys of other kinds are passed over.
-- What is kept beside the locks is not looked at: three more calls for each of them, while others
-- wait.
local now = redis.call('TIME')
local told = {now[1] * 1000000 + now[2]}
local page = redis.call('SCAN', ARGV.cursor, 'MATCH', ARGV.pattern, 'COUNT', 100, 'TYPE', 'string')
told[2] = page[1]
for _, key in ipairs(page[2]) do
    -- Of another client's value, which may be long, the beginning is enough. What we keep beside
    -- the locks is none.
    local owner = name_of(redis.call('GETRANGE', key, 0, 127))
    if owner ~= '' and string.sub(key, 1, 7) ~= 'tenure~' then
        told[#told + 1] = key
        told[#told + 1] = owner
        told[#told + 1] = redis.call('PTTL', key)
    end
end
return told
