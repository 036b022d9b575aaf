-- Acquires several locks, each as `acquire`, the text of acquire.lua, does without a ticket or label.
-- What is wrong with one of them must not stop the others.
--
-- KEYS: fences, record; then lock and fence of each
--
-- ARGV: nonce, life; then owner, ttl, fence and its end of each
--
-- The node's time if all were granted and nobody may be in line. Else for each what it answers.
local shared, told, listed, all = {fences = {}}, {}, {}, true
for i = 1, #KEYS / 2 - 1 do
    local k, a, before = 2 * i + 1, 4 * i - 1, #shared.fences
    local keys = {KEYS[k], KEYS[k + 1], KEYS[1], KEYS[2]}
    local arguments = {ARGV[a], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[1], ARGV[2]}
    local done, answer = pcall(acquire, keys, arguments, shared)
    if not done and type(answer) ~= 'table' then
        answer = {err = answer}
    end
    all = all and type(answer) == 'number'
    told[i] = answer
    if #shared.fences > before then
        listed[#listed + 1] = i
    end
end
if listed[1] then
    -- A lock whose fence nobody would free is not granted: it is given back, as after any error.
    local failure = redis.pcall('RPUSH', KEYS[1], unpack(shared.fences))
    if type(failure) == 'table' then
        all = false
        for _, i in ipairs(listed) do
            told[i] = failure
        end
    end
end
return all and told[1] or told
