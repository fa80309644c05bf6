"""What is done with a queue at the broker in one atomic step: text that runs there.

Believes nothing of what it finds: a size is looked at before anything of that size is read.
"""

from __future__ import annotations

from typing import Final

# The first job of the first queue that has one, moved and read in one round trip: KEYS are queues
# and their lists of taken ones, in turn. Atomic: nothing can be swapped between the look at a size
# and the read. A queue that is no list, and a job that is no hash, is said of that one.
TAKE: Final = """
local function told(error)
    if string.find(error.err, 'WRONGTYPE', 1, true) then return nil end
    return error
end
for i = 1, #KEYS, 2 do
    local place = (i - 1) / 2
    local id = redis.pcall('LMOVE', KEYS[i], KEYS[i + 1], 'LEFT', 'RIGHT')
    if type(id) == 'table' then return told(id) or {place} end
    if id and #id > tonumber(ARGV[1]) then
        redis.call('RPOP', KEYS[i + 1])
        return {place, 0}
    end
    if id then
        if not string.match(id, '^[a-z0-9]+$') then return {place, id} end
        local size = redis.pcall('HSTRLEN', ARGV[3] .. id, 'data')
        if type(size) == 'table' then return told(size) or {place, id} end
        if size > tonumber(ARGV[2]) then return {place, id, size} end
        return {place, id, redis.call('HGET', ARGV[3] .. id, 'data'), 1}
    end
end
return false
"""
# The push comes first: when it fails, the id still stands in the list of taken ones. What was just
# taken stands at the end of that list, what is left over at its head: nobody searches a long one.
GIVE_BACK: Final = """
redis.call(ARGV[2], KEYS[2], ARGV[1])
return redis.call('LREM', KEYS[1], ARGV[2] == 'LPUSH' and 1 or -1, ARGV[1])
"""
DROP_BAD: Final = """
local bad = {}
for _, id in ipairs(redis.call('LRANGE', KEYS[1], 0, 999)) do
    if not string.match(id, '^[a-z0-9]+$') or #id > tonumber(ARGV[1]) then bad[#bad + 1] = id end
end
for _, id in ipairs(bad) do redis.call('LREM', KEYS[1], 1, id) end
return #bad
"""
